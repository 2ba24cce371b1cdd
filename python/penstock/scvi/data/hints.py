"""Words of scvi-tools' data modules that `DataModule` does not have, and what replaces them."""

from __future__ import annotations

import inspect

from penstock.dataset.dataset import Dataset

_OF_A_DATASET = "dataset={{{name!r}: …}}, or a Dataset that was made with {name}="

#: Arguments that people try: those of TileDBDataModule, AnnbatchDataModule and `Dataset`.
ARGUMENTS = {
    **{
        name: _OF_A_DATASET.format(name=name)
        for name in inspect.signature(Dataset).parameters
        if name not in ("source", "batch_size", "sparse")
    },
    "accelerator": "penstock.scvi.train(model, data, accelerator=…)",
    "adata": "the first argument, data",
    "batch_column_names": "batch_key=[…]",
    "batch_labels": "batch_key=[…]",
    "cat_cov_keys": "categorical_covariate_keys=[…]",
    "collection": "the first argument, data: a path or a Dataset",
    "collection_val": "validation_size=, or group= to keep donors together",
    "cont_cov_keys": "continuous_covariate_keys=[…]",
    "dataloader_kwargs": "num_workers=; the loader has its own threads",
    "external_indexing": "train_size= and group= or stratify= for the split",
    "indices": "ds[indices] as data, where ds is a Dataset",
    "load_sparse_tensor": "sparse=True",
    "shuffle_set_split": "split_seed= for another split, which is always at random",
    **dict.fromkeys(
        ("genes", "gene_list", "hvg", "var_names"), "ds[:, genes] as data, where ds is a Dataset"
    ),
    "label_key": "labels_key=",
    "label_keys": "labels_key= of DataModule names the column of the labels",
    "layer_name": _OF_A_DATASET.format(name="layer"),
    "model_name": "model=",
    "n_top_genes": "ds[:, hvg] as data, where hvg = ps.highly_variable_genes(ds, n_top_genes=…)",
    "query": "the first argument, data",
    "reference_model": "DataModule.from_model(reference_model, data, extend_categories=True)",
    "setup_adata": "the first argument, data",
    "soma_experiment": "the first argument, data",
    "train_cells_frac": "train_size=",
    "val_frac": "validation_size=",
}

#: Attributes that people try.
ATTRIBUTES = {
    **dict.fromkeys(
        (
            "batch_column_names",
            "batch_labels",
            "extra_categorical_covs",
            "extra_continuous_covs",
            "labels_mapping",
            "model_name",
            "n_samples",
            "sample_key",
            "sample_keys",
            "samples",
            "samples_mapping",
            "unlabeled_category",
        ),
        "data.registry has the columns of the setup and their categories",
    ),
    "close": "data.dataset.close() gives back its memory",
    "split_seed": "data.train_idx and data.val_idx are the split, split_seed= of DataModule seeds it",
    "X": "data.dataset reads it",
    "adata": "data.dataset.to_anndata() reads the cells, data.template has the registration",
    "adata_manager": "data.registry has the registration",
    "from_scvi_model": "data.create_model(from_scvi=model) of a DataModule for SCANVI",
    "get_latent_representation": "use penstock.scvi.latent(model, data)",
    "label_keys": "labels_key= of DataModule names the column of the labels",
    "labels": "the cells have no labels, DataModule(cells, labels_key=…) gives them some",
    "train_size": "data.n_train and data.n_val count the cells, train_size= of DataModule sets the share",
    "validation_size": "data.n_val counts the cells, validation_size= of DataModule sets the share",
    "is_view": (
        "a call of scvi-tools takes an AnnData here; call penstock.scvi.latent, normalized, elbo and the "
        "like with (model, data)"
    ),
    "obs": "data.dataset.obs has it",
    "predict": "penstock.scvi.predict(model, data), latent, normalized and the like take both",
    "query_dataloader": "data.inference_dataloader() yields all cells in stored order",
    "to_anndata": "data.dataset.to_anndata() reads the cells",
    "summary_stats": "data.n_obs, data.n_vars, data.n_batch and data.n_labels have them",
    "train_dataset": "data.train has the training cells",
    "val_dataset": "data.val has the validation cells",
    "var": "data.dataset.var has it",
    "uns": "data.create_model() makes a model, where scvi-tools would take an AnnData",
    "var_names": (
        "data.gene_names has them. Where scvi-tools would take an AnnData: data.create_model(), and "
        "data.load_query_data(reference)"
    ),
}

#: Arguments of scvi-tools' functions of the same purpose as ours in `penstock.scvi.outputs`.
OF_OUTPUTS = {
    "adata": "data, the second argument",
    "data_loader_kwargs": "batch_size=; the loader has its own threads",
    "dataloader": "data, the second argument",
    "gene_list": "genes=",
    "give_mean": "return_dist=True for the variances, too",
    **dict.fromkeys(("ig_args", "ig_interpretability"), "model.predict with ds.to_anndata()"),
    "indices": "ds[indices] as data",
    "mc_samples": "return_dist=True for the variances of the latent variables",
    "modality": "model.get_latent_representation with ds.to_anndata()",
    **dict.fromkeys(
        ("n_samples", "n_samples_overall", "use_z_mean", "weights"),
        "seed= for another sample: each call decodes one of each cell",
    ),
    **dict.fromkeys(
        ("normalize_cells", "normalize_regions", "threshold"),
        "values of the result, which are neither normalised nor cut off",
    ),
    "protein_list": "of='proteins' and genes=",
    "region_list": "of='regions' and genes=",
    "return_mean": "values.mean() of the result; each call decodes one sample of each cell",
    "silent": "no such argument: nothing is printed",
    "use_posterior_mean": "no such argument: the posterior mean is taken",
    "return_numpy": "values of the result, an ndarray",
}

#: Names of the module that people try.
OF_MODULE = {
    **dict.fromkeys(
        (
            "AnnDataLoader",
            "AnnbatchDataModule",
            "CensusSCVIDataModule",
            "MappedCollectionDataModule",
            "SCVIDataModule",
            "TileDBDataModule",
        ),
        "use penstock.scvi.DataModule",
    ),
    **dict.fromkeys(
        ("SCANVI", "SCVI", "TOTALVI", "MULTIVI", "PEAKVI", "MRVI", "model"),
        "DataModule(cells, model).create_model() makes it, of scvi-tools' own class; "
        "create_model(from_scvi=scvi) starts a SCANVI with the weights of a SCVI",
    ),
    "get_elbo": "use penstock.scvi.elbo(model, data)",
    "get_latent_representation": "use penstock.scvi.latent(model, data)",
    "get_normalized_expression": "use penstock.scvi.normalized(model, data)",
    "from_scvi_model": (
        "DataModule(cells, 'SCANVI', labels_key=…, unlabeled_category=…).create_model(from_scvi=model)"
    ),
    "load_query_data": (
        "use DataModule.from_model(reference, cells, extend_categories=True)"
        ".load_query_data(reference)"
    ),
    "prepare_query_anndata": (
        "DataModule.from_model(reference, cells, extend_categories=True) has the genes of the reference"
    ),
    "setup_anndata": "DataModule(cells, batch_key=…) replaces it",
}
