"""A scikit-learn regressor that predicts distributions."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self, final, overload

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from kuq._numbers import as_real_number, whole_number
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.errors import InsufficientDataError, KuqError, ParameterError
from kuq.kernels.base import Score
from kuq.kernels.names import usual_score
from kuq.nn import second_order, store
from kuq.nn.convnext import ConvNeXt
from kuq.nn.descriptions import REVISION, complete, described, own_parts, restored
from kuq.nn.efficientnet import EfficientNetLite0
from kuq.nn.heads import EvidentialHead, FlowHead
from kuq.nn.heads.base import SHAPE_PENALTY
from kuq.nn.heads.sampler import NOISE_CHANNELS
from kuq.nn.mlp import MLP, usual_sizes
from kuq.nn.network import Network
from kuq.nn.representations import backbone_of, check_representation, head_of, is_mlp, named
from kuq.nn.row_weights import checked_weights, require_some
from kuq.nn.scaling import Scaling
from kuq.nn.settings import Training
from kuq.nn.streams import (
    Stream,
    are_batches,
    as_triple,
    inputs_in_batches,
    require_nothing_beside_batches,
)
from kuq.nn.tables import (
    batch_inputs,
    check_learnable,
    check_row_shape,
    checked_inputs,
    checked_member_targets,
    checked_pair,
    checked_rows,
    checked_scaling,
)
from kuq.nn.trainer import draws_at_once, rows_at_once
from kuq.nn.training import fit
from kuq.result import Uncertainty
from kuq.uncertainty import decompose

_KIND = "model"
#: Settings that belong to one run on one machine, not to the model: a file neither keeps nor gives
#: them, so that no path in it is ever followed.
_OF_ONE_RUN: dict[str, Any] = {"device": None, "checkpoint": None}
#: Those that predictions follow as they are now, not as they were in training.
_OF_PREDICTIONS = ("n_samples", "n_steps")


@final
class Regressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble of networks that predicts the whole distribution of the target.

    ``representation``: "normal", "evidential", "mixture", "low-rank", "sampler" or "flow".
    ``n_members``: None is 10, and 1 for "evidential", whose single network has a second-order law
    of its own. ``backbone``: "mlp", "fno", "convnext-tiny", "convnext-small", "efficientnet-lite0",
    a description such as ``kuq.nn.FNO(modes=12)``, or a torch module or a function that returns
    one. ``loss``: any kuq score; None is the CRPS or, for draws of vectors, the energy score, and
    what "evidential" and "low-rank" are known for. It sees standardised targets, so that
    bandwidths count in their standard deviations. ``n_samples``:
    draws of a prediction, by ``n_steps`` steps each for a flow; ``set_params`` changes both at any
    time, and anything else for the next ``fit``. For everything about training see
    ``kuq.nn.Training``; ``hidden_sizes`` (None: two layers of 50, and three from 2000 rows on),
    ``norm``, ``noise_after`` and ``input_gain`` are those of ``kuq.nn.MLP``; how closely the noise
    is followed on tables is up to ``shape_penalty`` (mixtures, normals and the normals that flows
    start from) and ``clipped_squares`` (the latter two; ``kuq.nn.NormalHead``). Levels of
    "evidential" are not identified (``kuq.nn.EvidentialHead``).

    X is (n, features) and y (n,) or (n, d); functions: X (n, channels, points), y (n, points);
    images: X (n, channels, H, W), y (n, H, W). NumPy in, NumPy (float64) out, in y's own units.

    >>> import kuq, numpy as np
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> model = kuq.nn.Regressor("normal", n_members=3, max_epochs=5).fit(x, x[:, 0] ** 2)
    >>> model.predict_distribution(x[:4])
    Ensemble of 3 × Normal(batch=(4,), event=())
    """

    def __init__(
        self,
        representation: str = "normal",
        *,
        n_members: int | None = None,
        backbone: Any = "mlp",
        hidden_sizes: Sequence[int] | None = None,
        activation: str = "gelu",
        norm: str = "auto",
        noise_after: int = 2,
        input_gain: float = 1.75,
        loss: Score | str | None = None,
        natural: bool = False,
        clipped_squares: bool = True,
        shape_penalty: float = SHAPE_PENALTY,
        regulariser: float = 0.01,
        n_components: int = 10,
        rank: int = 10,
        n_samples: int = 100,
        n_train_samples: int | None = None,
        noise_channels: int | None = None,
        n_steps: int = 8,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_epochs: int = 200,
        patience: int | None = None,
        plateau: int | None = None,
        annealing: bool = True,
        averaging: int | None = 5,
        bootstrap: bool = False,
        burn_in: int = 0,
        restore_best: bool = True,
        margin: float = 2.0,
        validation_fraction: float = 0.1,
        seed: int = 0,
        device: Any = None,
        compile: bool | str = False,
        mixed_precision: bool | None = None,
        progress: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50,
    ) -> None:
        check_representation(representation)
        self.representation = representation
        self.n_members = n_members
        self.backbone = backbone
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.norm = norm
        self.noise_after = noise_after
        self.input_gain = input_gain
        self.loss = loss
        self.natural = natural
        self.clipped_squares = clipped_squares
        self.shape_penalty = shape_penalty
        self.regulariser = regulariser
        self.n_components = n_components
        self.rank = rank
        self.n_samples = n_samples
        self.n_train_samples = n_train_samples
        self.noise_channels = noise_channels
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.plateau = plateau
        self.annealing = annealing
        self.averaging = averaging
        self.bootstrap = bootstrap
        self.burn_in = burn_in
        self.restore_best = restore_best
        self.margin = margin
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.device = device
        self.compile = compile
        self.mixed_precision = mixed_precision
        self.progress = progress
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(
        self,
        X: Any,
        y: Any = None,
        validation: Any = None,
        *,
        member_targets: Any = None,
        scaling: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train all members on rows of inputs and targets.

        ``X`` without y is a torch ``DataLoader`` or any iterable of batches (x, y) or
        (x, y, weight) that can be read again and again, so that data need not fit into memory: one
        pass finds means and deviations, and each epoch is one more. All members then see the same
        batches, which ``batch_size`` does not change, and no rows are set aside.

        ``validation=(X_val, y_val)``, with weights as a third array or as an iterable of batches,
        replaces the rows that are otherwise set aside at random: a ``validation_fraction`` by each
        member, others than the next one's, so that together they learn from all rows.
        ``sample_weight`` (n,) says how much each row counts, in losses, early stopping and scaling:
        2 is a row that occurs twice, 0 one that is not there, and only ratios matter.
        ``member_targets`` (members, n, …) are targets of each member's own, for experiments in
        which some see corrupted data; scaling and validation still follow y. ``scaling=(X, y)`` are
        rows by which to scale instead of those to train on, such as the whole pool of active
        learning, whose chosen rows are not like it. Ctrl-C ends training early with a warning and
        keeps what is learned (``history_.interrupted``).
        """
        if y is None and are_batches(X):
            require_nothing_beside_batches(member_targets, sample_weight)
            return self._fit_batches(X, validation, scaling)
        X, y = checked_rows(self, X, y)
        self._check_settings()
        by_member = None if member_targets is None else checked_member_targets(member_targets, y)
        weight = None if sample_weight is None else checked_weights(sample_weight, len(X))
        if weight is not None:
            require_some(weight)
            counting = weight > 0
            X, y, weight = X[counting], y[counting], weight[counting]
            by_member = None if by_member is None else by_member[:, counting]
        check_learnable(len(X), y.min(0), y.max(0))
        held_out: Any = self.validation_fraction
        if validation is not None:
            held_out = self._held_out(validation, y.shape[1:])
        if scaling is None:
            self.x_scaling_ = Scaling.of_inputs(X, weight)
            self.y_scaling_ = Scaling.of_targets(y, on_grid=X.ndim > 2, weight=weight)
        else:
            self._scale_like(scaling, X.shape[1:], y.shape[1:])
        scaled = self.x_scaling_.apply(X), self.y_scaling_.apply(y)
        by_member = None if by_member is None else self.y_scaling_.apply(by_member)
        return self._train(*scaled, held_out, member_targets=by_member, sample_weight=weight)

    def _scale_like(self, scaling: Any, x_shape: tuple[int, ...], event: tuple[int, ...]) -> None:
        X, y = checked_scaling(self, scaling, x_shape, event)
        self.x_scaling_ = Scaling.of_inputs(X)
        self.y_scaling_ = Scaling.of_targets(y, on_grid=X.ndim > 2)

    def _fit_batches(self, batches: Any, validation: Any, scaling: Any) -> Self:
        self._check_settings()
        stream = Stream.of(batches, batch_inputs(self))
        seen = stream.summary
        check_learnable(seen.rows, seen.low, seen.high)
        if scaling is None:
            self.x_scaling_ = Scaling.by(seen.x)
            self.y_scaling_ = Scaling.by(seen.y, seen.event_shape)
        else:
            self._scale_like(scaling, seen.x_shape, seen.event_shape)
        held_out = None if validation is None else self._held_out(validation, seen.event_shape)
        return self._train(stream.scaled(self.x_scaling_, self.y_scaling_), None, held_out)

    def _held_out(self, validation: Any, event: tuple[int, ...]) -> Any:
        """Rows to validate on, as arrays or as batches, in their own units."""
        if are_batches(validation):
            return Stream.of(validation, lambda x: checked_inputs(self, x, reset=False))
        X, y, weight = as_triple(validation)
        X, y = checked_pair(self, X, y, event)
        if weight is not None:
            require_some(checked_weights(weight, len(X), "the validation weight"))
        return X, y, weight

    def _train(self, x: Any, y: Any, held_out: Any, **per_row: Any) -> Self:
        """Train a new network on scaled rows; ``held_out`` are not scaled yet."""
        if isinstance(held_out, Stream):
            held_out = held_out.scaled(self.x_scaling_, self.y_scaling_)
        elif isinstance(held_out, tuple):
            X_val, y_val, weight = held_out
            scaled = self.x_scaling_.apply(X_val), self.y_scaling_.apply(y_val)
            held_out = (*scaled, weight) if len(X_val) else None
        shapes = (
            (x.summary.x_shape, x.summary.event_shape) if y is None else (x.shape[1:], y.shape[1:])
        )
        rows = x.summary.rows if y is None else len(x)
        network = self._network(*shapes, rows).to(self._device())
        training = self._training(1 + len(shapes[0]))
        self.history_ = fit(network, x, y, held_out, loss=self.loss, training=training, **per_row)
        self.network_, self.hidden_sizes_ = network, self._layers(rows)
        self.settings_ = self.get_params(deep=False)
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the predicted distribution, of the shape of y.

        With ``return_std`` also its standard deviation, of noise and disagreement together.
        """
        parameters = self._parameters(X)
        mean = np.asarray(self.network_.head.mean(parameters).mean(0))
        return (mean, self._like_targets(self._law(parameters).std())) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the central interval of every row, each of the shape of y.

        They are quantiles of the predicted mixture; ``kuq.calibration.recalibrate`` makes them hold
        what they promise on held-out data.

        >>> import kuq, numpy as np
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> model = kuq.nn.Regressor("normal", n_members=3, max_epochs=5).fit(x, x[:, 0])
        >>> low, high = model.predict_interval(x, coverage=0.8)
        >>> bool(np.all(low < high))
        True
        """
        low, high = self.predict_distribution(X).interval(coverage)
        return self._like_targets(low), self._like_targets(high)

    def _like_targets(self, values: Any) -> np.ndarray:
        """Values of every coordinate in the shape of y; the laws of some heads are of vectors."""
        return np.reshape(values, (-1, *self.network_.event_shape))

    def predict_distribution(self, X: Any) -> Ensemble | NormalInverseGamma:
        """The predicted law of every row: an Ensemble, one member for each network.

        One evidential network gives a NormalInverseGamma. Of several the mixture of their
        second-order laws is taken, as an Ensemble of normals with ``n_samples`` draws of each
        network, so that neither the doubt within nor the disagreement between them is lost.
        """
        return self._law(self._parameters(X))

    def _law(self, parameters: tuple[np.ndarray, ...]) -> Ensemble | NormalInverseGamma:
        head = self.network_.head
        if isinstance(head, EvidentialHead):
            if self.network_.n_members == 1:
                return head.law(tuple(p[0] for p in parameters))
            return second_order.pooled(
                parameters, head.event_ndim, self._draws(), self.network_.seed
            )
        return Ensemble(head.law(parameters))  # type: ignore[arg-type]

    def predict_uncertainty(
        self, X: Any, score: Score | str | None = None, **options: Any
    ) -> Uncertainty:
        """Total, aleatoric and epistemic uncertainty of every row, as ``kuq.decompose``.

        Without a ``score`` that is ``CRPS()``, and ``Energy()`` for functions and images.

        >>> import kuq, numpy as np
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> model = kuq.nn.Regressor("mixture", n_members=3, max_epochs=5).fit(x, x[:, 0])
        >>> model.predict_uncertainty(x).epistemic.shape
        (50,)
        """
        prediction = self.predict_distribution(X)
        if score is None:
            grid = len(self.network_.x_shape) - 1  # images of which a number is told have none
            score = usual_score(on_grid=0 < grid <= len(self.network_.event_shape))
        u: Uncertainty = decompose(prediction, score, **options)
        return u

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings, scaling, weights and names of features to one file.

        Nothing in it can run code, and a digest tells damage of any byte.
        """
        check_is_fitted(self)
        now = {name: getattr(self, name) for name in _OF_PREDICTIONS}
        settings = self.settings_ | now | _OF_ONE_RUN
        settings["hidden_sizes"] = self.hidden_sizes_
        settings["backbone"] = named(settings["backbone"])  # names may come to mean other networks
        names = getattr(self, "feature_names_in_", None)
        header = {
            "settings": {name: described(value) for name, value in settings.items()},
            "revision": REVISION,
            "x_shape": list(self.network_.x_shape),
            "event_shape": list(self.network_.event_shape),
            "n_members": self.network_.n_members,
            "feature_names": None if names is None else [str(name) for name in names],
        }
        arrays = {f"network.{k}": v.cpu().numpy() for k, v in self.network_.state_dict().items()}
        for name, scaling in (("x", self.x_scaling_), ("y", self.y_scaling_)):
            arrays[f"{name}.shift"], arrays[f"{name}.scale"] = scaling.shift, scaling.scale
        store.write(path, _KIND, arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> Regressor:
        """A model as it was saved; ``settings`` replace stored ones.

        A backbone or a loss of one's own is not in the file and has to be given again.
        """
        arrays, header = store.read(path, _KIND)
        try:
            return cls._restored(arrays, header, settings, os.fspath(path))
        except KuqError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ParameterError(
                f"{os.fspath(path)!r} is no model that this version of kuq can read: {error!r}"
            ) from error

    @classmethod
    def _restored(
        cls, arrays: dict[str, np.ndarray], header: Any, settings: dict[str, Any], path: str
    ) -> Regressor:
        cls._check_replaced(settings, header["n_members"], path)
        on_grid = len(header["x_shape"]) > 1
        stored = complete(header["settings"], header.get("revision", 1), on_grid)
        stored = {name: data for name, data in stored.items() if name not in settings}
        stored |= {name: None for name in _OF_ONE_RUN if name in stored}
        for name, data in stored.items():
            if opaque := own_parts(data):
                raise ParameterError(
                    f"the model in {path!r} has a {name} of its own, {opaque}, which the file "
                    f"cannot hold; pass it again: Regressor.load(path, {name}=…)"
                )
        model = cls(**{name: restored(data) for name, data in stored.items()}, **settings)
        network = model._network(
            *(tuple(header["x_shape"]), tuple(header["event_shape"])),
            n_members=header["n_members"],
            loaded=True,
        )
        weights = {
            name.removeprefix("network."): torch.from_numpy(array)
            for name, array in arrays.items()
            if name.startswith("network.")
        }
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise ParameterError(
                f"the weights in {path!r} do not fit the network: {error}"
            ) from error
        model.network_ = network.to(model._device()).eval()
        model.hidden_sizes_ = model._layers(0)
        model.settings_ = model.get_params(deep=False)
        model.x_scaling_ = Scaling(arrays["x.shift"], arrays["x.scale"])
        model.y_scaling_ = Scaling(arrays["y.shift"], arrays["y.scale"])
        model.n_features_in_ = int(header["x_shape"][0])
        names = header.get("feature_names")
        if names is not None:  # as scikit-learn keeps and checks them
            if len(names) != model.n_features_in_ or not all(isinstance(n, str) for n in names):
                raise ParameterError(f"{path!r} has no name for each feature: {names!r}")
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    @classmethod
    def _check_replaced(cls, settings: dict[str, Any], n_members: int, path: str) -> None:
        """Settings in place of stored ones: those that a model has, and as many members."""
        accepted = cls._get_param_names()
        for name in set(settings) - set(accepted):
            meant = difflib.get_close_matches(name, accepted, n=1)
            hint = f"; is it {meant[0]}?" if meant else f", only {', '.join(accepted)}"
            raise ParameterError(f"Regressor has no setting {name!r}{hint}")
        if settings.get("n_members", n_members) not in (None, n_members):
            raise ParameterError(
                f"{path!r} holds {n_members} members, got n_members={settings['n_members']!r}; "
                "leave it out"
            )

    def _parameters(self, X: Any) -> tuple[np.ndarray, ...]:
        """The parameters of all laws in the target's units, (M, n, …) in float64."""
        check_is_fitted(self)
        batches = inputs_in_batches(X)
        if batches is not None:
            parts = [self._parameters(batch) for batch in batches]
            if not parts:
                raise InsufficientDataError("the batches to predict hold no rows")
            return tuple(np.concatenate(column, axis=1) for column in zip(*parts, strict=True))
        X = checked_inputs(self, X, reset=False)
        check_row_shape(X, self.network_.x_shape)
        device = next(self.network_.parameters()).device
        x = torch.from_numpy(self.x_scaling_.apply(X)).to(device)
        head = self.network_.head
        if isinstance(head, FlowHead):
            head.n_steps = whole_number(self.n_steps, "n_steps", 1)
        noise = self.network_.prediction_noise(self._draws())
        step = rows_at_once(self.network_, 1 if noise is None else self.n_samples)
        pieces = []
        with torch.no_grad():
            for start in range(0, len(x), step):
                chunk = x[start : start + step]
                outputs = self.network_.outputs(
                    chunk.expand(self.network_.n_members, *chunk.shape),
                    noise,
                    at_once=draws_at_once(self.network_) if step == 1 else None,
                )
                pieces.append([p.double().cpu().numpy() for p in outputs])
        parameters = tuple(np.concatenate(column, axis=1) for column in zip(*pieces, strict=True))
        return head.in_units(parameters, self.y_scaling_.shift, self.y_scaling_.scale)

    def _network(
        self,
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        rows: int = 0,
        n_members: int | None = None,
        loaded: bool = False,
    ) -> Network:
        sizes = self._layers(rows)
        mlp = MLP(
            MLP.hidden_sizes if sizes is None else sizes,
            *(self.activation, self.norm, self.noise_after, self.input_gain),
        )
        backbone = backbone_of(self.backbone, mlp)
        if loaded and isinstance(backbone, (ConvNeXt, EfficientNetLite0)):
            backbone = replace(backbone, pretrained=False)
        settings = self.get_params(deep=False)
        if settings["noise_channels"] is None:
            settings["noise_channels"] = NOISE_CHANNELS if len(x_shape) == 1 else 1
        head, options = head_of(self.representation, settings)
        if n_members is None:
            n_members = self.n_members
        if n_members is None:
            n_members = 1 if head is EvidentialHead else 10
        return Network(backbone, head, x_shape, event_shape, n_members, self.seed, **options)

    def _layers(self, rows: int) -> Sequence[int] | None:
        """Sizes of the layers for so many rows, None where a backbone has its own."""
        if self.hidden_sizes is None and is_mlp(self.backbone):
            return usual_sizes(rows)
        return self.hidden_sizes

    def _training(self, axes: int) -> Training:
        draws = self.n_train_samples
        if draws is None:
            flow = self.representation == "flow"
            draws = {2: 8}.get(axes, 2) if flow else {2: 10, 3: 5}.get(axes, 3)
        return Training(
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            patience=self.patience,
            plateau=self.plateau,
            annealing=self.annealing,
            averaging=self.averaging,
            bootstrap=self.bootstrap,
            burn_in=self.burn_in,
            restore_best=self.restore_best,
            margin=self.margin,
            n_samples=draws,
            compile=self.compile,
            mixed_precision=self.mixed_precision,
            progress=self.progress,
            checkpoint=self.checkpoint,
            checkpoint_every=self.checkpoint_every,
        )

    def _device(self) -> torch.device:
        if self.device is not None:
            try:
                return torch.empty(0, device=self.device).device
            except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
                raise ParameterError(
                    f"torch has no device {self.device!r} here: {str(error).splitlines()[0]}; "
                    'device=None takes a GPU where there is one, and else the CPU ("cpu")'
                ) from error
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def _check_settings(self) -> None:
        whole_number(self.seed, "seed", 0)
        share = as_real_number(self.validation_fraction)
        if share is None or not 0 <= share < 1:
            raise ParameterError(
                f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}"
            )
        self._draws()

    def _draws(self) -> int:
        return whole_number(self.n_samples, "n_samples", 2)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags
