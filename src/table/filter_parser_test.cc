#include <gtest/gtest.h>
#include <penstock/error.h>

#include <string>

#include "table/filter_syntax.h"

namespace penstock::table {
namespace {

/// The tree as fully parenthesized text.
std::string shown(const FilterNode& node) {
  const auto joined = [&](const std::string& op) {
    std::string text = "(";
    for (const FilterNode& child : node.children) {
      text += (text.size() > 1 ? " " + op + " " : "") + shown(child);
    }
    return text + ")";
  };
  const auto literal = [](const Literal& value) {
    switch (value.kind) {
      case Literal::Kind::kNull:
        return std::string("None");
      case Literal::Kind::kBool:
        return std::string(value.magnitude != 0 ? "True" : "False");
      case Literal::Kind::kInteger:
        return (value.negative ? "-" : "") +
               (value.huge ? std::string("huge") : std::to_string(value.magnitude));
      case Literal::Kind::kFloat:
        return std::to_string(value.real);
      case Literal::Kind::kString:
        break;
    }
    return "'" + value.text + "'";
  };
  static constexpr const char* kOps[] = {"<", "<=", ">", ">=", "==", "!="};
  switch (node.kind) {
    case FilterNode::Kind::kAnd:
      return joined("and");
    case FilterNode::Kind::kOr:
      return joined("or");
    case FilterNode::Kind::kNot:
      return "not " + shown(node.children[0]);
    case FilterNode::Kind::kCompare:
      return node.column + kOps[static_cast<int>(node.op)] + literal(node.values[0]);
    case FilterNode::Kind::kIn:
      break;
  }
  std::string text = node.column + (node.negated ? " not in [" : " in [");
  for (const Literal& value : node.values) text += literal(value) + ",";
  return text + "]";
}

std::string parsed(const std::string& text) { return shown(parse_filter(text)); }

TEST(FilterParser, PrecedenceIsPythons) {
  EXPECT_EQ(parsed("a==1 or b==2 and not c==3"), "(a==1 or (b==2 and not c==3))");
  EXPECT_EQ(parsed("(a==1) | (b==2) & (c==3)"), "(a==1 or (b==2 and c==3))");
  EXPECT_EQ(parsed("not a==1 and b==2"), "(not a==1 and b==2)");
  EXPECT_EQ(parsed("not (a==1) & (b==2)"), "not (a==1 and b==2)");
  EXPECT_EQ(parsed("a==1 and b==1 and c==1"), "(a==1 and b==1 and c==1)");
  EXPECT_EQ(parsed("not not a==1"), "not not a==1");
}

TEST(FilterParser, ComparisonsBothWaysAndChained) {
  EXPECT_EQ(parsed("1 < a"), "a>1");
  EXPECT_EQ(parsed("1 >= a"), "a<=1");
  EXPECT_EQ(parsed("1 < a <= 4"), "(a>1 and a<=4)");
  EXPECT_EQ(parsed("1 < a <= 4 < b"), "(a>1 and a<=4 and b>4)");
  EXPECT_EQ(parsed("a in [1, 'x', True,]"), "a in [1,'x',True,]");
  EXPECT_EQ(parsed("attr('a b') not in [val(2)]"), "a b not in [2,]");
}

TEST(FilterParser, Literals) {
  EXPECT_EQ(parsed("a == 0xFf"), "a==255");
  EXPECT_EQ(parsed("a == 0b1_0"), "a==2");
  EXPECT_EQ(parsed("a == -1_000"), "a==-1000");
  EXPECT_EQ(parsed("a == --5"), "a==5");
  EXPECT_EQ(parsed("a == -True"), "a==-1");
  EXPECT_EQ(parsed("a == 18446744073709551615"), "a==18446744073709551615");
  EXPECT_EQ(parsed("a == 18446744073709551616"), "a==huge");
  EXPECT_EQ(parsed("a == 1.5e1"), "a==15.000000");
  EXPECT_EQ(parsed("a == .5"), "a==0.500000");
  EXPECT_EQ(parsed("a == 1e999"), "a==inf");
  EXPECT_EQ(parsed("a == 1e-999"), "a==0.000000");
  EXPECT_EQ(parsed("a == 'it''s'"), "a=='its'");
  EXPECT_EQ(parsed(R"(a == "\x41\u00e9\U0001F600\101\q\n")"),
            "a=='A\xC3\xA9\xF0\x9F\x98\x80"
            "A\\q\n'");
  EXPECT_EQ(parsed(R"(a == r"\n")"), "a=='\\n'");
  EXPECT_EQ(parsed("a == '''x\n'y'''"), "a=='x\n'y'");
  EXPECT_EQ(parsed("a == None"), "a==None");
}

struct Refused {
  const char* text;
  const char* message;  // a part of it
  size_t caret;         // column of the first caret
};

class FilterErrors : public ::testing::TestWithParam<Refused> {};

TEST_P(FilterErrors, PointAtThePlace) {
  const Refused& refused = GetParam();
  try {
    parse_filter(refused.text);
    FAIL() << refused.text;
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(refused.message), std::string::npos) << message;
    const std::string carets = message.substr(message.rfind('\n') + 1);
    EXPECT_EQ(carets.find('^'), refused.caret + 2) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FilterErrors,
    ::testing::Values(
        Refused{"", "empty", 0}, Refused{"a", "only a column", 0},
        Refused{"a = 1", "written ==", 2}, Refused{"a == ", "end of the filter", 5},
        Refused{"a == b", "put in quotes", 5}, Refused{"1 == 2", "expected a column", 0},
        Refused{"a == 1 & b == 2", "parentheses", 5}, Refused{"a in (1, 2)", "tuples", 7},
        Refused{"a in {1}", "sets", 5}, Refused{"a in []", "at least one", 5},
        Refused{"a in [b]", "in quotes", 6}, Refused{"a.b == 1", "attr(\"a.", 1},
        Refused{"a is None", "'is'", 2}, Refused{"a == 'x", "no closing", 5},
        Refused{"a == 012", "0o", 5}, Refused{"a == 1j", "complex", 5},
        Refused{"a == f'x'", "f-strings", 5}, Refused{"(a == 1", "expected ')'", 7},
        Refused{"a == 1)", "expected 'and'", 6}, Refused{"a == 1 or", "end of the filter", 9},
        Refused{"a in [1] == 2", "chain", 9}, Refused{"f(a) == 1", "only attr", 1},
        Refused{"\xC3\xA9 == $", "unexpected character", 5},
        Refused{"a == '\\ud800'", "not a Unicode", 6}, Refused{"~(a == 1)", "use 'not'", 0},
        Refused{"a == true", "True or False", 5}, Refused{"a in [FALSE]", "True or False", 6},
        Refused{"a == nan", "isna()", 5}, Refused{"a == -'x'", "number after", 6}));

TEST(FilterParser, DeepNestingIsRefused) {
  const std::string open(300, '('), close(300, ')');
  EXPECT_THROW(parse_filter(open + "a == 1" + close), InvalidArgument);
  EXPECT_NO_THROW(parse_filter(open.substr(150) + "a == 1" + close.substr(150)));
  std::string nots;
  for (int i = 0; i < 300; ++i) nots += "not ";
  EXPECT_THROW(parse_filter(nots + "a == 1"), InvalidArgument);
  EXPECT_THROW(parse_filter("a in " + std::string(100'000, '[')), InvalidArgument);
  EXPECT_THROW(parse_filter("a == " + std::string(100'000, '-')), InvalidArgument);
}

TEST(FilterParser, LongTextIsShownInPart) {
  const std::string long_text =
      "a in [" + std::string(5000, '1') + ", b, " + std::string(5000, '2') + "]";
  try {
    parse_filter(long_text);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_LT(std::string(error.what()).size(), 600U);
    EXPECT_NE(std::string(error.what()).find("..."), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock::table
