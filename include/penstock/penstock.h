#pragma once

#include <penstock/beside.h>         // IWYU pragma: export
#include <penstock/cache.h>          // IWYU pragma: export
#include <penstock/data_type.h>      // IWYU pragma: export
#include <penstock/error.h>          // IWYU pragma: export
#include <penstock/experiment.h>     // IWYU pragma: export
#include <penstock/join.h>           // IWYU pragma: export
#include <penstock/loader.h>         // IWYU pragma: export
#include <penstock/pack.h>           // IWYU pragma: export
#include <penstock/resume.h>         // IWYU pragma: export
#include <penstock/row_sampling.h>   // IWYU pragma: export
#include <penstock/row_selection.h>  // IWYU pragma: export
#include <penstock/statistics.h>     // IWYU pragma: export
#include <penstock/table.h>          // IWYU pragma: export
#include <penstock/transform.h>      // IWYU pragma: export
