"""Data sets from the user's own files: pooled images, and silos that come as such.

Belongs here: which files make up a data set, and its conventions (labels from 0, upright images, scores in [0, 1]).
Formats and checksums are in ``files``; giving rows of a pool to clients is in ``partitions``.  Nothing is downloaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.data import files
from estimators.federated.data.federation import Examples, Federation, generator, held_share, labels
from estimators.numerics.validation import choice

if TYPE_CHECKING:
    from estimators.federated.data.files import Reader

__all__ = ["cifar10", "emnist", "fashion_mnist", "femnist", "gleam", "landmine", "mnist", "school", "vehicle"]

TEST = re.compile(r"(^|[-_.])(test|t10k)([-_.]|$)")
EMNIST_CLASSES = {"balanced": 47, "byclass": 62, "bymerge": 47, "digits": 10, "letters": 26, "mnist": 10}


def mnist(path: str | Path, *, sha256: str | None = None) -> Examples:
    """Handwritten digits: 70,000 grey images of 28 x 28, 10 classes (LeCun, Cortes and Burges 1998).

    Parameters
    ----------
    path : a folder, or one file or a list of files: IDX images (plain or .gz, beside their labels) whose names begin
        with ``train`` or ``t10k``; or npz with keys images (n, 28, 28) uint8, labels and optionally is_test, where without
        is_test a file with ``test`` or ``t10k`` in its name is for testing.
    sha256 : None, or a dict from file name to the SHA-256 that it must have.

    Returns
    -------
    Examples with x (n, 28, 28) uint8; provenance names each file's SHA-256, and whether it is a published file.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If a file is damaged, half, of another data set, or not as `sha256` says.
    """
    return images("mnist", path, sha256, (28, 28), 10)


def fashion_mnist(path: str | Path, *, sha256: str | None = None) -> Examples:
    """Articles of clothing: 70,000 grey images of 28 x 28, 10 classes (Xiao, Rasul and Vollgraf 2017).

    Arguments as in `mnist`.  A copy without the official split has no test rows: call ``.split_test(1 / 7, seed=0)``.
    """
    return images("fashion_mnist", path, sha256, (28, 28), 10)


def emnist(path: str | Path, *, split: str = "digits", sha256: str | None = None) -> Examples:
    """Handwritten digits and letters, grey images of 28 x 28 (Cohen, Afshar, Tapson and van Schaik 2017).

    Parameters
    ----------
    path : folder with ``emnist-SPLIT-train-images-idx3-ubyte[.gz]`` and so on, or npz files with upright images.
    split : "digits", "letters", "balanced", "byclass", "bymerge" or "mnist".
    sha256 : as in `mnist`.

    Returns
    -------
    Examples with upright images (the IDX files hold them transposed) and labels from 0 ("letters" has 1 to 26).
    """
    classes = EMNIST_CLASSES[choice("split", split, EMNIST_CLASSES)]
    return images("emnist", path, sha256, (28, 28), classes, prefix=f"emnist-{split}-", first=int(split == "letters"))


def cifar10(path: str | Path, *, sha256: str | None = None) -> Examples:
    """Photographs: 60,000 colour images of 32 x 32, 10 classes (Krizhevsky 2009).

    Parameters
    ----------
    path : folder, file or list of files: data_batch_1.bin .. data_batch_5.bin and test_batch.bin of the binary version
        (the Python version is pickled and is not read), or npz as in `mnist` with images (n, 32, 32, 3).
    sha256 : as in `mnist`.

    Returns
    -------
    Examples with x (n, 32, 32, 3) uint8.
    """
    return images("cifar10", path, sha256, (32, 32, 3), 10)


def images(
    dataset: str,
    path: str | Path,
    sha256: str | None,
    shape: tuple[int, ...],
    classes: Any,
    *,
    prefix: str = "",
    first: int = 0,
) -> Examples:
    """Pool of labelled images from all files at `path`."""
    reader, parts, formats = files.Reader(dataset, sha256), [], {}
    for file in listed(dataset, path, prefix):
        stem = file.name.lower()
        is_test = bool(TEST.search(stem))
        kind = stem.rsplit(".", 1)[-1] if stem.endswith((".npz", ".bin")) else "idx"
        if formats.setdefault(is_test, kind) != kind:
            raise ValueError(f"{path} has {'test' if is_test else 'training'} images in two formats; list the files to read")
        if kind == "npz":
            found = files.npz(reader.read(file), file, ("images", "labels"), ("is_test",))
            x, y = found["images"], labels(f"labels of {file}", found["labels"])
            test = np.asarray(found.get("is_test", np.full(len(y), is_test)), dtype=bool)
        elif kind == "bin":
            x, y = files.cifar_binary(reader.read(file, "test" if is_test else "train"), file)
            test = np.full(len(y), is_test)
        else:
            part, other = "test" if is_test else "train", partner(file)
            x = files.idx(reader.read(file, f"{part} images"), file, 3)
            y = files.idx(reader.read(other, f"{part} labels"), other, 1).astype(np.int64) - first
            x = x.transpose(0, 2, 1) if dataset == "emnist" else x
            test = np.full(len(y), is_test)
        if x.shape[1:] != shape or x.dtype != np.uint8 or not len(x) == len(y) == len(test):
            raise ValueError(
                f"{file}: {len(y)} labels and images of {x.dtype} with shape {x.shape}; needed are uint8 images "
                f"(n, {', '.join(map(str, shape))}) and n labels"
            )
        if len(y) and not 0 <= y.min() <= y.max() < classes:
            raise ValueError(f"{file}: labels are {y.min()}..{y.max()}; {dataset} has 0..{classes - 1}")
        parts.append((x, y, test))
    x, y, test = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Examples(x, y, test, classes=classes, top=255.0, name=dataset, provenance=reader.provenance())


def listed(dataset: str, path: str | Path, prefix: str = "") -> list[Any]:
    """Files of images at `path`, in the order of their names; an IDX file once, plain before .gz, without labels."""
    if isinstance(path, (list, tuple)):
        found = [Path(p) for p in path]
    elif Path(path).is_dir():
        found = sorted(p for p in Path(path).iterdir() if p.name.startswith(prefix) or p.suffix == ".npz")
    else:
        found = [Path(path)]
    chosen = {}
    for file in found:
        name = file.name.lower()
        if name.endswith((".npz", ".bin")) or "images" in name:
            chosen.setdefault((file.parent, name.removesuffix(".gz")), file)
    if not chosen and not isinstance(path, (list, tuple)) and not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist; give the path of your own copy of {dataset}")
    if not chosen:
        pickled = any(p.name.startswith("data_batch") for p in found)
        hint = " (data_batch_* are pickled; take cifar-10-binary.tar.gz instead)" if pickled else ""
        raise ValueError(f"{path} holds no {prefix}*images*ubyte[.gz], .npz or .bin file of {dataset}{hint}; check the path")
    return list(chosen.values())


def partner(file: Path) -> Any:
    """The file of labels beside an IDX file of images."""
    name = file.name.replace("images", "labels").replace("idx3", "idx1")
    candidates = [file.with_name(n) for n in (name, name.removesuffix(".gz"), f"{name}.gz")]
    return next((p for p in candidates if p.exists()), candidates[0])


def school(path: str | Path, *, test_fraction: float = 0.2, seed: int = 0, sha256: str | None = None) -> Federation:
    """Exam scores of 15,362 pupils in 139 schools, 28 features (Inner London Education Authority; MALSAR's school.mat).

    Scores 1..70 become (score - 1) / 69, the scale on which MR-MTL's errors are (Figures 3b and A4).  That paper's C.1 tests
    on 20 %, but its range of training rows, 15..175, is the one of testing on 30 %; with 20 % it is 17..200.

    Parameters
    ----------
    path : school.mat, or its folder.
    test_fraction : number in [0, 1), the share of each school's rows to test on, rounded up; seed : whole number >= 0.
    sha256 : None or the SHA-256 that the file must have.

    Returns
    -------
    Federation with raw features (see `standardised`) and `top` 1.

    Raises ValueError if the file is damaged, or a school is left without training rows.
    """
    x, y, reader = cells("school", path, "school.mat", sha256)
    scores = np.concatenate(y)
    if scores.min() < 1 or scores.max() > 70:
        raise ValueError(f"{path}: scores {scores.min():g}..{scores.max():g}; School has 1..70, so this is another file")
    return silos(reader, x, [(scores - 1) / 69 for scores in y], 0, test_fraction, seed)


def vehicle(path: str | Path, *, test_fraction: float = 0.25, seed: int = 0, sha256: str | None = None) -> Federation:
    """Two types of vehicles heard by 23 sensors, 100 features (Duarte and Hu 2004; vehicle.mat with cells X, Y).

    Arguments and result as in `school`; labels -1, 1 become 0, 1.  A quarter is for testing (MR-MTL C.1).
    """
    return binary("vehicle", path, "vehicle.mat", test_fraction, seed, sha256)


def gleam(path: str | Path, *, test_fraction: float = 0.25, seed: int = 0, sha256: str | None = None) -> Federation:
    """Head movements of 38 wearers of glasses, eating or not, 180 features (Rahman et al. 2015; gleam.mat with cells X, Y).

    Arguments and result as in `school`; labels -1, 1 become 0, 1.  A quarter is for testing, as MR-MTL's authors do.
    """
    return binary("gleam", path, "gleam.mat", test_fraction, seed, sha256)


def landmine(path: str | Path, *, test_fraction: float = 0.25, seed: int = 0, sha256: str | None = None) -> Federation:
    """Mines in radar images of 29 fields, 9 features (Xue, Liao, Carin and Krishnapuram 2007; LandmineData.mat).

    Arguments and result as in `school`; labels 0, 1, of which 6 % are 1.
    """
    return binary("landmine", path, "LandmineData.mat", test_fraction, seed, sha256)


def cells(dataset: str, path: str | Path, file: str, sha256: str | None) -> tuple[Any, list[Any], Reader]:
    """Features and targets of each client of a .mat file, and the reader that read it."""
    path, reader = Path(path), files.Reader(dataset, sha256)
    path = path / file if path.is_dir() else path
    x, y = files.matlab_cells(reader.read(path), path, (("X", "Y"), ("feature", "label")))
    widths = {a.shape[1] for a in x if len(a)}
    if len(widths) != 1:
        raise ValueError(f"{path}: clients have {sorted(widths)} features; all must have as many")
    for k, (a, b) in enumerate(zip(x, y, strict=True)):
        if a.size == 0 or len(a) != len(b):
            raise ValueError(
                f"{path}: client {k} has {len(a) if a.size else 0} rows and {len(b)} targets; drop or repair it"
            )
    return x, y, reader


def binary(dataset: str, path: str | Path, file: str, test_fraction: float, seed: int, sha256: str | None) -> Federation:
    """Silos with two classes."""
    x, y, reader = cells(dataset, path, file, sha256)
    values = np.unique(np.concatenate(y))
    if not (np.isin(values, (0, 1)).all() or np.isin(values, (-1, 1)).all()):
        raise ValueError(f"{path}: labels are {values[:5]}; needed are 0 and 1, or -1 and 1")
    return silos(reader, x, [targets > 0 for targets in y], 2, test_fraction, seed)


def silos(reader: Reader, x: Any, y: Any, classes: Any, test_fraction: float, seed: int, names: Any = None) -> Federation:
    """Federation of clients with their own rows, a random part of each for testing; rows of a client follow each other."""
    share, rng, start, train, test = held_share("test_fraction", test_fraction), generator(seed, "silos"), 0, [], []
    order = []
    for rows in y:
        held = int(np.ceil(share * len(rows)))
        order.append(start + rng.permutation(len(rows)))
        train.append(np.arange(start, start + len(rows) - held))
        test.append(np.arange(start + len(rows) - held, start + len(rows)))
        start += len(rows)
    order = np.concatenate(order)
    step = {"test_fraction": share, "seed": int(seed)}
    return Federation(
        np.concatenate(x)[order], np.concatenate(y)[order], train, test, classes=classes, names=names,
        name=reader.dataset, provenance=reader.provenance(silos=step),
    )  # fmt: skip


def femnist(
    path: str | Path, *, digits_only: bool = False, test_fraction: float = 0.1, seed: int = 0, sha256: str | None = None
) -> Federation:
    """Handwritten characters by writer: 28 x 28 images, 62 classes, one client per writer (LEAF, Caldas et al. 2018).

    Parameters
    ----------
    path : a .json file or a folder of them, of which a random share of each writer's rows is for testing; or a folder with
        the folders train and test, as LEAF makes them (then `test_fraction` and `seed` are not used).
    digits_only : keep the labels 0..9 only.  FedHDP's FMNIST (Table 5: 3,383 clients, 10 labels, from TFF) is this, and not
        Fashion-MNIST; its FEMNIST has all 62.  Writers without training digits are left out.
    test_fraction : number in [0, 1); seed : whole number >= 0; sha256 : as in `mnist`.

    Returns
    -------
    Federation with x (n, 28, 28) float32 as in the file: numbers in [0, 1], the background 1.

    Raises ValueError if a file is damaged, a writer has no row, or a writer has test rows only.
    """
    path, reader, classes = Path(path), files.Reader("femnist", sha256), 10 if digits_only else 62
    if not ((path / "train").is_dir() and (path / "test").is_dir()):
        users = writers(reader, path, classes)
        return silos(reader, *columns(users), classes, test_fraction, seed, names=tuple(users))
    train, test = writers(reader, path / "train", classes), writers(reader, path / "test", classes)
    alone = sorted(set(test) - set(train))
    if alone and not digits_only:
        raise ValueError(f"{path}: writer {alone[0]} has test rows only; split each writer's own rows")
    counts = np.array([[len(train[name][1]), len(test[name][1]) if name in test else 0] for name in train])
    spans = np.split(np.arange(counts.sum()), np.cumsum(counts.ravel())[:-1])
    x, y = columns({(name, part): rows[name] for name in train for part, rows in enumerate((train, test)) if name in rows})
    return Federation(
        np.concatenate(x), np.concatenate(y), spans[::2], spans[1::2], names=tuple(train), classes=classes, name="femnist",
        provenance=reader.provenance(silos={"split": "folders train and test"}),
    )  # fmt: skip


def columns(users: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Features of all users, and their labels."""
    x, y = zip(*users.values(), strict=True)
    return x, y


def writers(reader: Reader, path: Path, classes: Any) -> dict[str, Any]:
    """Images and labels below `classes` of all users of a LEAF json file or of a folder of them, without empty users."""
    found = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not found:
        raise ValueError(f"{path} holds no .json file; run LEAF's preprocessing, or check the path")
    users = {}
    for file in found:
        for name, (x, y) in files.leaf(reader.read(file), file).items():
            if name in users:
                raise ValueError(f"{file}: writer {name} is in another file too; keep one of them")
            if x.ndim != 2 or x.shape[1] != 784:
                raise ValueError(f"{file}: writer {name} has rows of shape {x.shape[1:]}; FEMNIST has 784 numbers per image")
            if (y < 0).any() or (y > 61).any():
                raise ValueError(f"{file}: writer {name} has labels {y.min()}..{y.max()}; FEMNIST has 0..61")
            users[name] = x.reshape(-1, 28, 28)[y < classes], y[y < classes]
    kept = {name: rows for name, rows in users.items() if len(rows[1])}
    if not kept:
        raise ValueError(f"{path}: no writer has a label below {classes}")
    return kept
