"""The vocabulary of the synthetic cells: tissues, cell types, assays.

Names and ontology ids are the public ones (Cell Ontology, UBERON, EFO), so that a filter written
for the Census also selects something here.
"""

from __future__ import annotations

CELL_TYPES: dict[str, str] = {
    "T cell": "CL:0000084",
    "B cell": "CL:0000236",
    "macrophage": "CL:0000235",
    "endothelial cell": "CL:0000115",
    "fibroblast": "CL:0000057",
    "natural killer cell": "CL:0000623",
    "classical monocyte": "CL:0000860",
    "plasma cell": "CL:0000786",
    "mast cell": "CL:0000097",
    "dendritic cell": "CL:0000451",
    "smooth muscle cell": "CL:0000192",
    "pericyte": "CL:0000669",
    "basal cell": "CL:0000646",
    "keratinocyte": "CL:0000312",
    "epithelial cell": "CL:0000066",
    "leukocyte": "CL:0000738",
    "Schwann cell": "CL:0002573",
    "neuron": "CL:0000540",
    "astrocyte": "CL:0000127",
    "oligodendrocyte": "CL:0000128",
    "microglial cell": "CL:0000129",
    "hepatocyte": "CL:0000182",
    "cardiac muscle cell": "CL:0000746",
    "pulmonary alveolar type 2 cell": "CL:0002063",
    "ciliated cell": "CL:0000064",
    "enterocyte": "CL:0000584",
    "goblet cell": "CL:0000160",
    "kidney proximal tubule cell": "CL:1000838",
    "erythrocyte": "CL:0000232",
    "hematopoietic stem cell": "CL:0000037",
}

_COMMON = ("T cell", "macrophage", "endothelial cell", "fibroblast")

# general tissue: (id, share of cells, {tissue: id}, cell types from the most frequent on)
TISSUES: dict[str, tuple[str, float, dict[str, str], tuple[str, ...]]] = {
    "brain": (
        "UBERON:0000955",
        0.22,
        {"cerebral cortex": "UBERON:0000956", "cerebellum": "UBERON:0002037"},
        ("neuron", "oligodendrocyte", "astrocyte", "microglial cell", "endothelial cell"),
    ),
    "blood": (
        "UBERON:0000178",
        0.2,
        {"blood": "UBERON:0000178"},
        (
            "T cell",
            "classical monocyte",
            "B cell",
            "natural killer cell",
            "erythrocyte",
            "dendritic cell",
            "plasma cell",
            "hematopoietic stem cell",
        ),
    ),
    "lung": (
        "UBERON:0002048",
        0.16,
        {"lung": "UBERON:0002048", "lung parenchyma": "UBERON:0008946"},
        ("pulmonary alveolar type 2 cell", "ciliated cell", "mast cell", *_COMMON),
    ),
    "tongue": (
        "UBERON:0001723",
        0.12,
        {
            "anterior part of tongue": "UBERON:0010032",
            "posterior part of tongue": "UBERON:0010033",
        },
        (
            "basal cell",
            "keratinocyte",
            "fibroblast",
            "epithelial cell",
            "leukocyte",
            "endothelial cell",
            "pericyte",
            "Schwann cell",
        ),
    ),
    "liver": ("UBERON:0002107", 0.1, {"liver": "UBERON:0002107"}, ("hepatocyte", *_COMMON)),
    "heart": (
        "UBERON:0000948",
        0.08,
        {"heart left ventricle": "UBERON:0002084", "heart right ventricle": "UBERON:0002080"},
        ("cardiac muscle cell", "smooth muscle cell", "pericyte", *_COMMON),
    ),
    "small intestine": (
        "UBERON:0002108",
        0.07,
        {"duodenum": "UBERON:0002114", "ileum": "UBERON:0002116"},
        ("enterocyte", "goblet cell", "plasma cell", "smooth muscle cell", *_COMMON),
    ),
    "kidney": (
        "UBERON:0002113",
        0.05,
        {"kidney": "UBERON:0002113"},
        ("kidney proximal tubule cell", "pericyte", *_COMMON),
    ),
}

# assay: (EFO id, share of datasets, depth against 10x 3' v3, full length?)
ASSAYS: dict[str, tuple[str, float, float, bool]] = {
    "10x 3' v3": ("EFO:0009922", 0.5, 1.0, False),
    "10x 3' v2": ("EFO:0009899", 0.3, 0.6, False),
    "10x 5' v1": ("EFO:0011025", 0.15, 0.8, False),
    "Smart-seq2": ("EFO:0008931", 0.05, 1.6, True),
}

# The genes that dominate a droplet: mean counts in a median cell of 10x 3' v3.
ABUNDANT_GENES: dict[str, float] = {
    "MALAT1": 420.0,
    "MT-CO1": 330.0,
    "MT-CO3": 300.0,
    "MT-CO2": 260.0,
    "MT-ATP6": 210.0,
    "MT-ND4": 170.0,
    "MT-CYB": 130.0,
    "MT-ND1": 110.0,
    "MT-ND3": 80.0,
    "MT-ND2": 70.0,
    "TMSB4X": 60.0,
    "B2M": 60.0,
    "EEF1A1": 50.0,
    "FTL": 45.0,
    "RPLP1": 40.0,
    "RPS27": 35.0,
    "ACTB": 32.0,
    "TMSB10": 30.0,
    "RPL10": 28.0,
    "RPL13": 26.0,
}
DISEASES = ("normal", "COVID-19", "dilated cardiomyopathy", "lung adenocarcinoma")
STAGES = ("adult stage", "child stage", "80 year-old and over stage", "fetal stage")
ETHNICITIES = ("European", "Asian", "African", "unknown")
