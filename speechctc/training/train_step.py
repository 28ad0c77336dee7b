"""One optimiser step; splits the batch when memory runs out; parts of a step as CUDA graphs.

Consistency regularisation for CTC: two masked views of an utterance should give the same posteriors. Z. Yao et al.,
"CR-CTC: Consistency regularization on CTC for improved speech recognition", ICLR 2025, eq. 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from speechctc.config.schema import Config
from speechctc.core.devices import autocast, choose_precision, is_out_of_memory
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.ctc.cuda import check
from speechctc.ctc.loss import Reduction, ctc_loss
from speechctc.features.padded import frame_mask, net_input
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import is_own
from speechctc.model.net import CTCNet
from speechctc.training.augment import Augmenter
from speechctc.training.batches import Batch
from speechctc.training.distributed import Ranks
from speechctc.training.optimise import Stage, WeightEMA, build_optimizer

# A batch on a GPU is padded to a multiple of so many frames: cuDNN plans each new shape, which takes longer than a
# step, and each takes a CUDA graph.
GPU_FRAMES = 64


class TrainStep:
    """The net, its optimiser and everything else that a step changes.

    Parameters
    ----------
    config : Config
    net : CTCNet
    mean, std : Tensor, shape = (channels, static_dims)
    ranks : Ranks
    reporter : Reporter

    Attributes
    ----------
    precision : str
        Precision of the net's matrix products.
    ema : WeightEMA or None
        Exponential moving average of the weights, if ``train.ema`` asks for one.
    norms : GradientNorms
        Of the epoch so far.
    clock : callable
        Returns the context in which a part of a step is run; it may time that.
    graphs : StepGraphs or None
        What replays the parts of a step, on a GPU that trains alone, with nothing of a user's and the own loss.
    """

    def __init__(
        self, config: Config, net: CTCNet, mean: Tensor, std: Tensor, ranks: Ranks, reporter: Reporter
    ) -> None:
        self.config, self.net, self.mean, self.std = config, net, mean, std
        self.ranks, self.reporter = ranks, reporter
        self.device = mean.device
        self.precision = choose_precision(self.device, config.train.precision)
        self.ema: WeightEMA | None = None
        self.augmenter = Augmenter(config, self.device)
        self.scaler = torch.amp.grad_scaler.GradScaler(self.device.type, enabled=self.precision == "float16")
        self.norms = GradientNorms(self.device, config.train.clip)
        self.clock: Callable[[str], AbstractContextManager[Any]] = nullcontext
        self.graphs: StepGraphs | None = None
        # On a GPU what changes from step to step is in tensors, as CUDA graphs keep numbers.
        self._rates, self._phones = dict[float, Tensor](), torch.zeros((), device=self.device)
        self._is_own = is_own(config.model)
        self._refused = math.inf  # the fewest padded frames that ran out of memory

    def normalise_as(self, model: Checkpoint) -> None:
        """Take the normalisation of features from a model, with whose weights it belongs together."""
        self.mean, self.std = (torch.from_numpy(each).to(self.device) for each in (model.mean, model.std))

    def start_stage(self, stage: Stage) -> None:
        """Build the optimiser of the stage; restart the weight average from the present weights."""
        self.optimizer = build_optimizer(self.net, stage)
        decay = self.config.train.ema
        self.ema = WeightEMA(self.net, decay) if decay else None
        self.scaler.scale(torch.zeros((), device=self.device))  # else it asks for a batch in the first step
        own_loss = self.config.train.loss_backend in ("auto", "cuda")
        is_ours = own_loss and not self.config.augment.own and not self._is_own and not self.optimizer.of_torch
        if self.on_gpu and self.ranks.world_size == 1 and is_ours:
            self.graphs = StepGraphs(self.device, self.reporter)  # anew: they hold the optimiser's state

    @property
    def on_gpu(self) -> bool:
        """Whether the net is on a GPU."""
        return self.device.type == "cuda"

    @property
    def _pads(self) -> bool:
        """Whether batches are padded to few shapes; a net of the user's own may take no more than the longest."""
        return self.on_gpu and not self._is_own

    def step(self, batches: Sequence[Batch], phones: int, rate: float, number: int) -> Tensor:
        """Take step `number` on this rank's batches, as on one; those of all ranks hold `phones` labels in total.

        Returns the sum of this rank's losses, on the device, without waiting for it. The random numbers of a step
        (dropout, augmentation) depend only on the seed, the step and the rank, so no generator state is saved.
        """
        with self.graphs.aside() if self.graphs else nullcontext():
            return self._take_step(batches, max(phones, 1), rate, number)

    def _take_step(self, batches: Sequence[Batch], phones: int, rate: float, number: int) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate_of(group.get("scale", 1.0), rate)
        if self.on_gpu:
            self._phones.fill_(phones)
        seed = np.random.SeedSequence([self.config.train.seed, number, self.ranks.rank]).generate_state(2)
        loss = self._gradients(batches, phones, int(seed[0]) << 31 | int(seed[1]) >> 1)
        with self.clock("reduce"):
            self.ranks.sum_gradients(self.net.parameters())
        with self.clock("optimiser"):
            self._run(self._update)
            if self.ema is not None:
                self.ema.update(self.net, number)
        return loss

    def _rate_of(self, scale: float, rate: float) -> Tensor | float:
        """Return the learning rate of a group, in a tensor where a CUDA graph may keep it."""
        if not self.on_gpu or self.optimizer.of_torch:
            return rate * scale
        if scale not in self._rates:
            self._rates[scale] = torch.zeros((), device=self.device)
        return self._rates[scale].fill_(rate * scale)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits of shape (n_batch, max_output_frames, classes) and each utterance's output frames."""
        features = net_input(batch.static, batch.frames, self.mean, self.std, self.config.features)
        with autocast(self.device, self.precision):
            logits, frames = self.net(features, batch.frames)
        return logits.float(), frames

    def forward_varied(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """Augment the batch and return the logits of each view of it, and each utterance's output frames.

        Two views share speed, level and noise and differ in their masks.
        """
        static, frames = self.augmenter.perturb_speed(batch.static, batch.frames, batch.labels, batch.label_counts)
        augmenter, views = self.augmenter, self.config.train.views
        if self._pads and static.shape[1] % GPU_FRAMES:
            static = functional.pad(static, (0, 0, 0, -static.shape[1] % GPU_FRAMES))
        static = augmenter.perturb_spectrum(static, frames)
        features = net_input(static, frames, self.mean, self.std, self.config.features)
        features = torch.cat([augmenter.mask(features, frames) for _ in range(views)])
        with autocast(self.device, self.precision):
            logits, frames = self.net(features, frames.repeat(views))
        return [view.float() for view in logits.chunk(views)], frames[: len(frames) // views]

    def losses(self, logits: Tensor, frames: Tensor, batch: Batch) -> Tensor:
        """Return each utterance's loss, shape = (n_batch,)."""
        return self._loss(logits, frames, batch, "none")

    def _loss(self, logits: Tensor, frames: Tensor, batch: Batch, reduction: Reduction, scale: float = 1.0) -> Tensor:
        sizes = (frames, batch.label_counts)
        backend = self.config.train.loss_backend
        return ctc_loss(logits.transpose(0, 1), batch.labels, *sizes, reduction=reduction, backend=backend, scale=scale)

    def check_labels(self) -> None:
        """Raise if the loss was given a bad length or label on a GPU; that of PyTorch does not tell."""
        if self.on_gpu and self.config.train.loss_backend in ("auto", "cuda"):
            check(self.device)

    def ema_weights(self) -> AbstractContextManager[None]:
        """Return a context in which the net has the averaged weights, if ``train.ema`` asks for them."""
        return nullcontext() if self.ema is None else self.ema.in_place(self.net)

    def weights_are_finite(self) -> bool:
        """Return whether all weights are finite. The host waits for the device."""
        return bool(torch.stack([value.detach().isfinite().all() for value in self.net.parameters()]).all())

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the state of everything that a step changes, except the net."""
        scale = self.scaler.state_dict()
        state = self.optimizer.to_tensors("optimizer.") | (self.ema.to_tensors() if self.ema else {})
        state["norms"] = self.norms.totals
        return state | {f"scaler.{name}": torch.tensor(value) for name, value in scale.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Load what `to_tensors` returned."""
        self.optimizer.restore(tensors, "optimizer.")
        self.norms.totals.copy_(tensors["norms"])
        if self.ema is not None:
            self.ema.restore(tensors)
        scale = {name[7:]: value.item() for name, value in tensors.items() if name.startswith("scaler.")}
        if scale:
            self.scaler.load_state_dict(scale)

    def _gradients(self, batches: Sequence[Batch], phones: int, seed: int) -> Tensor:
        """Compute the gradients of the mean loss per label; in parts where a whole batch does not fit into memory.

        The sum over the parts equals the whole within rounding, but each part draws its own dropout and augmentation.
        """
        while True:
            self.optimizer.zero_grad(in_place=self.on_gpu)
            torch.manual_seed(seed)
            losses = [torch.zeros((), device=self.device)]
            try:
                for batch in batches:
                    losses += [self._add_gradients(part, phones) for part in batch.split(self._parts(batch))]
                return torch.stack(losses).sum()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Outside `except`: the traceback would keep the tensors alive.
            if self.graphs is None or not self.graphs.give_up("memory is short"):
                self._split_further(batch)

    def _run(self, part: Part, *given: Tensor) -> Any:
        """Call a part of the step, by a CUDA graph where there may be one."""
        if self.graphs is None or self.clock is not nullcontext:
            return part(*given)
        return self.graphs.run(part, *given)

    def _update(self) -> None:
        """Take the optimiser's step."""
        self.scaler.unscale_(self.optimizer)  # type: ignore[arg-type]  # it asks only for what ours has
        self.norms.clip(self.net.parameters())
        self.scaler.step(self.optimizer)  # type: ignore[arg-type]
        self.scaler.update()

    def _add_gradients(self, batch: Batch, phones: int) -> Tensor:
        """As `_backward`; on a GPU, of a batch in one of a few shapes."""
        if not self._pads:
            return self._backward(batch, phones)
        longer, more = -batch.static.shape[1] % GPU_FRAMES, padded_labels(batch.labels.shape[1]) - batch.labels.shape[1]
        static, labels = functional.pad(batch.static, (0, 0, 0, longer)), functional.pad(batch.labels, (0, more))
        loss: Tensor = self._run(self._backward_on_gpu, static, batch.frames, labels, batch.label_counts)
        return loss

    def _backward_on_gpu(self, *tensors: Tensor) -> Tensor:
        host = np.zeros(0, dtype=np.int64)
        return self._backward(Batch(host, host, host, *tensors), self._phones)

    def _backward(self, batch: Batch, phones: int | Tensor) -> Tensor:
        """Add the batch's gradients; return the sum of its utterances' CTC losses, the mean over the views."""
        config, known = self.config.train, 1 if isinstance(phones, Tensor) else phones
        with self.clock("forward"):
            logits, frames = self.forward_varied(batch)
        with self.clock("loss"):
            share = 1 / (known * len(logits))  # given to the loss: a division of it would be a pass over the gradient
            loss = ctc = torch.stack([self._loss(each, frames, batch, "sum", share) for each in logits]).sum()
            if config.consistency:
                loss = loss + config.consistency / known * consistency(logits[0], logits[1], frames)
            if isinstance(phones, Tensor):
                loss = loss / phones
        del logits  # else they stay while the net's gradients are computed
        with self.clock("backward"):
            self.scaler.scale(loss).backward()
        return ctc.detach() * known

    def _parts(self, batch: Batch) -> int:
        """Return into how many parts to split a batch, given the sizes that ran out of memory before."""
        parts = 1
        while parts < len(batch.indices) and batch.padded_frames / parts >= self._refused:
            parts *= 2
        return parts

    def _split_further(self, batch: Batch) -> None:
        parts = self._parts(batch)
        if self.on_gpu:
            torch.cuda.empty_cache()
        if parts >= len(batch.indices):
            raise InputError(
                f"memory has no room for even one utterance of {int(batch.lengths.max())} frames",
                "lower data.chunk_mib, take a smaller model, or leave out the longest recordings"
                " (docs/guide/symptoms.md#out-of-memory)",
            )
        if self._refused == math.inf:
            self.reporter.warn_of_this_process(
                f"out of memory at {len(batch.indices)} utterances of up to {int(batch.lengths.max())} frames;"
                " such batches go in parts from now on, to the same result; a lower train.batch_frames avoids it"
            )
        self._refused = min(self._refused, batch.padded_frames / parts)


def padded_labels(labels: int) -> int:
    """Return how many labels a batch on a GPU is padded to: 31, 63, 127, ..., the most that a kernel takes."""
    return max(32, 1 << labels.bit_length()) - 1


def consistency(logits: Tensor, others: Tensor, frames: Tensor) -> Tensor:
    """Return the symmetric divergence between the posteriors of two views.

    Each view is the target of the other; no gradient flows through a target.

    Parameters
    ----------
    logits, others : Tensor, shape = (n_batch, max_frames, classes)
    frames : Tensor, shape = (n_batch,)

    Returns
    -------
    Tensor, shape = ()
        Half the sum of both Kullback-Leibler divergences, over all frames of all utterances, nats.
    """
    inside = frame_mask(frames, logits.shape[1])[:, :, None]
    first, second = (torch.where(inside, each, 0.0).log_softmax(2) for each in (logits, others))

    def divergence(log_probs: Tensor, target: Tensor) -> Tensor:
        return functional.kl_div(log_probs, target.detach(), reduction="sum", log_target=True)

    # Padded frames are uniform in both views and contribute 0.
    return 0.5 * (divergence(first, second) + divergence(second, first))


class GradientNorms:
    """Mean and largest norm of the gradient, and the share of steps whose gradient was clipped.

    Parameters
    ----------
    device : torch.device
    limit : float
        Largest norm that is not clipped; 0: none is.

    Attributes
    ----------
    totals : Tensor, shape = (5,), float64
        Sum of the finite norms, their number, the number of clipped ones, the number of steps, the largest norm.
    """

    def __init__(self, device: torch.device, limit: float) -> None:
        self.limit = limit or math.inf
        self.totals = torch.zeros(5, dtype=torch.float64, device=device)

    def clip(self, parameters: Iterable[nn.Parameter]) -> None:
        """Measure the norm of the gradients, and clip them to the limit, if there is one."""
        with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
        if self.limit < math.inf:
            norm = torch.nn.utils.clip_grad_norm_(with_gradient, self.limit)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in with_gradient if p.grad is not None])
        self._add(norm.detach().double())

    def _add(self, norm: Tensor) -> None:
        finite = norm.isfinite()  # it is not in steps that the scaler of float16 skips
        value = torch.where(finite, norm, 0.0)
        one = torch.ones_like(value)
        self.totals[:4] += torch.stack([value, finite.double(), (value > self.limit).double(), one])
        self.totals[4] = torch.maximum(self.totals[4], value)

    def summary(self) -> dict[str, float]:
        """Return the values for ``metrics.jsonl``. On a GPU this waits for the device."""
        total, finite, clipped, steps, largest = self.totals.tolist()
        return {
            "gradient_norm": total / max(finite, 1),
            "gradient_norm_max": largest,
            "clipped_share": clipped / max(steps, 1),
        }

    def reset(self) -> None:
        """Begin an epoch."""
        self.totals.zero_()


EAGERLY = 2  # times that a part runs kernel by kernel on inputs of a shape: a rare shape is not worth its capture
MAX_GRAPHS = 64  # each takes some memory beside what all share; further shapes run kernel by kernel

Part = Callable[..., Tensor | None]


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    output: Tensor | None


class StepGraphs:
    """Runs parts of a step, and captures and replays those that come again.

    A step is some 650 short kernels. To launch them one by one takes the host longer than the GPU takes to compute
    them; a graph, one for each shape of a part's inputs, is launched as one. What a graph reads must lie where it lay
    when it was captured, so that whatever changes from step to step is on the device: inputs are copied there before
    each replay, and numbers such as the learning rate are tensors. Random numbers go on from the seed and the offset
    of torch's generator, as without a graph.

    All graphs share one pool of memory: a part leaves nothing there that another needs, but its output, which is kept.

    Parameters
    ----------
    device : torch.device
        A GPU.
    reporter : Reporter
        Told when graphs cannot be used.
    """

    def __init__(self, device: torch.device, reporter: Reporter) -> None:
        self._device, self._reporter = device, reporter
        self._stream = torch.cuda.Stream(device)  # libraries have a workspace for each stream, not of the pool
        self._seen: Counter[Hashable] = Counter()
        self._works = True
        self._forget()

    def run(self, part: Part, *given: Tensor) -> Tensor | None:
        """Return what `part` returns for these tensors; it waits for nothing and keeps no tensor that it makes.

        To be called `aside`.
        """
        if not self._works:
            return part(*given)
        key = (part.__name__, *(tensor.shape for tensor in given))
        self._seen[key] += 1
        if self._seen[key] <= EAGERLY:
            return part(*given)
        if key not in self._kept and (len(self._kept) == MAX_GRAPHS or not self._capture(key, part, given)):
            return part(*given)
        graph, inputs, output = self._kept[key]
        for into, tensor in zip(inputs, given, strict=True):
            into.copy_(tensor)
        graph.replay()
        return None if output is None else output.clone()

    def give_up(self, reason: str) -> bool:
        """Where there are graphs, use none from now on and give back their memory; return whether there were any."""
        if not self._kept:
            return False
        self._end(reason)
        return True

    def _end(self, reason: str) -> None:
        self._works = False
        self._forget()
        torch.cuda.empty_cache()
        what = f"no CUDA graphs from here on ({reason})"
        self._reporter.warn_of_this_process(f"{what}: training goes on, to the same result but slower")

    def _forget(self) -> None:
        self._kept: dict[Hashable, _Captured] = {}
        self._rooms: dict[tuple[str, int], Tensor] = {}
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work on the stream of captures, after what is under way, and before what comes: a whole step does.

        Autograd's nodes keep the stream on which they were made, and a capture fails where one is of another stream.
        """
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            yield
        here.wait_stream(self._stream)

    def _capture(self, key: Hashable, part: Part, given: tuple[Tensor, ...]) -> bool:
        """Capture a part for inputs of these shapes, without running it; return whether that succeeded."""
        inputs = [self._room(part.__name__, place, tensor).copy_(tensor) for place, tensor in enumerate(given)]
        graph = torch.cuda.CUDAGraph()
        try:
            # Another thread reads data meanwhile, and may do what a capture forbids.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                output = part(*inputs)
        except RuntimeError as error:  # among them, that memory is short
            reason = " ".join(str(error.__context__ or error).split())[:200]
        else:
            self._kept[key] = _Captured(graph, inputs, output)
            return True
        self._end_failed_capture()  # outside `except`: the traceback would keep tensors alive
        self._end(reason)
        return False

    def _room(self, part: str, place: int, like: Tensor) -> Tensor:
        """Return memory for an input in the shape of `like`; graphs of all shapes share it, as one runs at a time."""
        room = self._rooms.get((part, place))
        if room is None or room.numel() < like.numel():
            room = self._rooms[part, place] = like.new_empty(2 * like.numel())
        return room[: like.numel()].view(like.shape)

    def _end_failed_capture(self) -> None:
        """Let torch's allocator and its random numbers go on: both may believe that the capture is under way."""
        index = self._device.index or 0
        with suppress(RuntimeError):  # it is not under way any more
            torch._C._cuda_endAllocateToPool(index, self._pool)
            torch._C._cuda_releasePool(index, self._pool)
        generator = torch.cuda.default_generators[index]
        generator.graphsafe_set_state(generator.clone_state())
