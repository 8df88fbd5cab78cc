"""Load large files by executors, which run Weft's own reader on parts of the files.

The driver chooses (``readers``). Executors then read the files up to three times:

1. They survey the blocks (``files/cutting.py``). The driver finds out whether the content was loaded before.
2. If types must be inferred, each executor returns the evidence of its parts.
3. In *waves* of a few parts per core, the executors write the rows of their parts into the table's folder, with their
   ts, and return their rejected records. The driver puts these into quarantine and commits the files of the wave.

During a wave the load holds the watermark, which determines the late rows. Between two waves ticks may run, unless
several files with event times are loaded one after another: later files have earlier rows. As in any load, a wave is
stored as a whole or not at all, and a repeated load leaves out the rows that are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import accumulate, islice
from typing import BinaryIO, Final, Generic, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.algebra.schema import TableSchema
from weft.catalog.records import TableRecord
from weft.configuration import configuration
from weft.errors import Conflict, ExecutionError, ExtractionError, Refused, StorageError, WeftError
from weft.execution.append_rows import Written, are_late, stamp, time_of
from weft.execution.engines import choosing
from weft.execution.engines.choosing import Choice
from weft.execution.executor_tasks import cores, on_executors, task_numbers
from weft.execution.home import OpenHome
from weft.extraction.batches import Batch, RejectedRecord, Timing, arrow_schema
from weft.extraction.byte_streams import COMPRESSED
from weft.extraction.files import bulk, cutting
from weft.extraction.files.cutting import BY_BLOCKS, Cut, GroupCut, Place, Stretch, Surveyed, TextCut, Walk, survey
from weft.extraction.files.encoding import UTF_8, Letters, codec_name, encoding_of_head
from weft.extraction.files.inference import Evidence, Seen
from weft.extraction.files.options import AS_WRITTEN, FileOptions
from weft.extraction.files.probe import (
    FileInspection,
    InputFile,
    evidence_in_json,
    format_by_name,
    inspect_file,
    unreadable,
)
from weft.extraction.files.source import FileSource, digests_of, file_sources
from weft.extraction.files.workers import use_one_thread
from weft.extraction.rejected_files import RejectedFile, rejected_in
from weft.extraction.storing import Load, writing_load
from weft.runtime.settings import in_one_process, local_master
from weft.storage.data_files import FileForm, NewFile, new_name
from weft.storage.local_sql import connect
from weft.storage.table import Table
from weft.writing.reserved import ensure, first_and_last

Given = TypeVar("Given")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_AT_ONCE: Final = 16
_PARTS_PER_CORE: Final = 2
_QUOTE: Final = b'"'
_PACKED: Final = (".gz", ".bz2", ".xz")
_REJECTED_BYTES: Final = 16 << 20
"""The bytes of rejected records that the tasks of a wave return together. A task returns more of them in a file."""
_SURVEYED_AT_ONCE: Final = 1_000


def readers(
    to: OpenHome, files: Sequence[InputFile], keys: Sequence[str], timing: Timing, options: FileOptions
) -> tuple[Executors | None, Choice | None]:
    """Choose who reads the files of a load: executors, or this process (None).

    The choice is None if it needs no reason: Spark has no cluster, the files are on this machine, or they are not
    large. Raise ExtractionError or StorageError for an unreadable file.
    """
    here = [file for file in files if file.place is None]
    if len(here) == len(files) or not _has_cluster(to):
        return None, None
    most = choosing.BOUNDS.loaded
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        sizes = list(threads.map(InputFile.size, files))
        if sum(sizes) <= most:
            return None, None
        files = list(threads.map(_marked, files))
        sizes = list(threads.map(InputFile.size, files))
    if here:
        return None, Choice("driver", f"{here[0].name} is on this machine, and no executor sees it")
    why = _why_one_reader(files, keys, timing, options)
    if why is not None:
        return None, Choice("driver", why)
    try:
        executors = Executors(to, dict(zip(files, sizes, strict=True)))
    except ExecutionError as error:  # no executor starts, has the packages, or reaches the store
        return None, Choice("driver", f"executors cannot read the files: {error.message}")
    why = executors.why_not()
    if why is not None:
        return None, Choice("driver", why)
    return executors, Choice("Spark", f"the files have {sum(sizes):,} bytes, more than {max(most, 0):,}")


def _marked(file: InputFile) -> InputFile:
    """Return the object with its present mark, so that a change is noticed."""
    return replace(file, mark=None if file.place is None else file.place.mark())


def _has_cluster(to: OpenHome) -> bool:
    return not in_one_process(configuration(to.folder).spark_master or local_master())


def _why_one_reader(
    files: Sequence[InputFile], keys: Sequence[str], timing: Timing, options: FileOptions
) -> str | None:
    if keys:
        return "the table has a key, and each row is compared with the rows before it"
    if timing.order == "arrival":
        return "with --ts-order arrival, the ts of a row depends on the rows before it"
    if timing.late != "stamp":
        return f"with --late {timing.late}, all rows are read before the first is stored"
    if options.encoding is not None and codec_name(options.encoding) != UTF_8:
        return f"the encoding {options.encoding} has no line ends that can be found from the middle of a file"
    for file in files:
        if format_by_name(file.path) is None:
            return f"the name of {file.name} does not show its format"
        if file.path.suffix.lower() in _PACKED:
            return f"{file.name} is compressed, and can only be read from its begin"
    return None


@dataclass(frozen=True)
class Reached(Generic[Result]):
    """The result of a task that has read its part, and the place behind the last record."""

    place: Place
    result: Result


@dataclass(frozen=True)
class Stored:
    """What a task found in its part.

    ``read`` and ``rows`` are the numbers of records and of valid rows. ``files`` are the arguments of NewFile, with the
    name instead of the location. ``bounds`` are the least and the greatest ts in them (µs UTC). ``rejected_in`` is the
    name of a file with the rejected records, if they are many.
    """

    read: int = 0
    rows: int = 0
    late: int = 0
    files: tuple[tuple[str, int, int, int, str], ...] = ()
    bounds: tuple[int, int] | None = None
    rejected: tuple[RejectedRecord, ...] = ()
    rejected_in: str | None = None


@dataclass(frozen=True)
class Wave:
    """What the tasks of a wave share. ``latest``, ``floor`` and ``now`` are in µs UTC.

    ``sources`` has the files of the wave by number. If ``counting`` is True, rows are counted and not stored. A task
    returns rejected records of up to ``rejected_bytes`` itself.
    """

    sources: Mapping[int, FileSource]
    timing: Timing
    latest: int | None
    table: TableRecord
    form: FileForm
    counting: bool
    floor: int
    now: int
    rejected_bytes: int

    def stored(self, done: Stored, rows: pa.Table) -> Stored:
        """Write the rows of a batch into a file, with their ts. Return ``done`` with the file."""
        stamped = stamp(rows, self.table.schema, self.floor, self.now)
        new = self.form.write([stamped], new_name(*task_numbers()))
        file = (new.location.name, new.size, new.modified_ms, new.rows, new.statistics)
        first, last = first_and_last(self.table, stamped)
        bounds = (first, last) if done.bounds is None else (min(first, done.bounds[0]), max(last, done.bounds[1]))
        late = pc.sum(are_late(rows, self.floor)).as_py()
        return replace(done, late=done.late + late, files=(*done.files, file), bounds=bounds)


class Executors:
    """The executors as readers of the files of one load. The files must be objects in an object store."""

    def __init__(self, to: OpenHome, files: Mapping[InputFile, int]) -> None:
        """Survey the files, which have the given sizes. The errors are those of ``readers``."""
        self._to = to
        self._most = _PARTS_PER_CORE * cores(to.session)
        block, numbered = cutting.BLOCK, dict(enumerate(files))
        self._blocks: dict[InputFile, list[Surveyed]] = {file: [] for file in files}
        blocks = ((number, at, block) for number, file in numbered.items() for at in range(0, files[file], block))
        while some := list(islice(blocks, _SURVEYED_AT_ONCE)):
            surveying = partial(_survey, _chosen(numbered, (number for number, _, _ in some)))
            found = on_executors(to.session, surveying, some, "the files were surveyed")
            for (number, _, _), each in zip(some, found, strict=True):
                if isinstance(each, WeftError):
                    raise each
                self._blocks[numbered[number]].append(each)

    def digests(self, whole: bool) -> dict[InputFile, tuple[str, ...]]:
        """Return the digests of each file: that of its blocks, and its SHA-256 if ``whole`` is True or if it is that.

        A task reads a whole file for its SHA-256, by which a load on the driver knows the file.
        """
        found: dict[InputFile, tuple[str, ...]] = {
            file: (cutting.digest_of_blocks(each.sha256 for each in own),) for file, own in self._blocks.items()
        }
        several = {number: file for number, file in enumerate(found) if found[file][0].startswith(BY_BLOCKS)}
        if whole and several:
            numbers = list(several)
            hashed = on_executors(self._to.session, partial(_whole, several), numbers, "earlier loads were looked up")
            for number, each in zip(numbers, hashed, strict=True):
                if isinstance(each, WeftError):
                    raise each
                found[several[number]] += (each,)
        return found

    def why_not(self) -> str | None:
        """Return why executors cannot read the files after all, or None."""
        for file, blocks in self._blocks.items():
            head = blocks[0].head if blocks else b""
            if format_by_name(file.path) == "parquet":
                continue
            if head.startswith(COMPRESSED):
                return f"{file.name} is compressed, and can only be read from its begin"
            found = encoding_of_head(head) or sum((each.letters for each in blocks), Letters()).encoding
            if found != UTF_8:
                return f"{file.name} is not UTF-8"
        return None

    def open_files(
        self,
        files: Sequence[InputFile],
        schema: TableSchema | None,
        *,
        ts_from: str | None = None,
        evolve: bool = False,
        options: FileOptions = AS_WRITTEN,
    ) -> tuple[FileSource, ...]:
        """Do what ``source.open_files`` does. The executors read the files."""
        utf_8 = replace(options, encoding=UTF_8)
        infer = schema is None or evolve or ts_from is not None
        known: dict[InputFile, FileInspection] = {}
        for file in files:
            if format_by_name(file.path) != "json":
                try:
                    known[file] = inspect_file(file, False, options=utf_8, seen={})
                except (OSError, pa.ArrowException) as error:
                    raise unreadable(file, error) from None
        looked = [file for file in files if infer or format_by_name(file.path) != "csv"]
        seen = self._evidence(looked, known, utf_8)
        inspected = []
        for file in files:
            if file not in known:
                inspected.append(inspect_file(file, False, options=utf_8, seen=seen[file]))
            elif known[file].layout.format == "csv" and infer:
                inspected.append(replace(known[file], evidence=seen[file]))
            else:
                inspected.append(known[file])
        return file_sources(inspected, schema, ts_from, evolve, options)

    def _evidence(
        self, files: Sequence[InputFile], known: Mapping[InputFile, FileInspection], options: FileOptions
    ) -> dict[InputFile, Seen]:
        found: dict[InputFile, dict[str, Evidence]] = {file: {} for file in files}
        walk = Walk([self._cut(file, known.get(file)) for file in files], self._most)
        looked = {number: (file, known.get(file), options) for number, file in enumerate(files)}
        while stretches := walk.ahead():
            look = partial(_look, _chosen(looked, (stretch.file for stretch in stretches)))
            reached = self._read(look, stretches, stretches, "the types of the columns were inferred")
            right = walk.take(stretches, [each.place for each in reached])
            for stretch, each in zip(stretches[:right], reached, strict=False):
                of_file = found[files[stretch.file]]
                for name, seen in each.result.items():
                    of_file[name] = of_file[name].joined(seen) if name in of_file else seen
        return dict(found)

    def _cut(self, file: InputFile, inspection: FileInspection | None) -> Cut:
        if inspection is None or inspection.layout.format != "parquet":
            return TextCut(self._blocks[file])
        with file.opened() as stream:
            metadata = pq.read_metadata(stream)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return GroupCut([(group.total_byte_size, group.num_rows) for group in groups])

    def _read(
        self,
        function: Callable[[Given], Reached[Result] | WeftError],
        given: Sequence[Given],
        stretches: Sequence[Stretch],
        doing: str,
    ) -> list[Reached[Result]]:
        """Return the results for the stretches up to an error. Raise the error if its stretch counts."""
        reached: list[Reached[Result]] = []
        for each in on_executors(self._to.session, function, given, doing):
            if isinstance(each, Reached):
                reached.append(each)
                continue
            if Walk.right(stretches, [one.place for one in reached]) > len(reached):
                raise each
            break
        return reached

    def batches(self, load: Load, sources: Sequence[FileSource]) -> Iterator[Batch | Written]:
        """Yield the rejected records and the written rows of the files, wave by wave.

        The rows that an earlier run of the load stored are left out: they are counted first, and then the part in which
        they end is read again. Raise Conflict if the table has a key.
        """
        if load.table.keys:
            raise Conflict(f"{load.table.name} was created with a key in the meantime", hint="Repeat the load.")
        latest = self._to.clock() + load.timing.future_us if self._to.catalog.home().clock == "wall" else None
        walk = Walk([self._cut(each.inspection.file, each.inspection) for each in sources], self._most)
        left, counting = load.already or 0, bool(load.already)
        empty, doing = arrow_schema(sources[0].columns).empty_table(), f"executors loaded {load.table.name}"
        while stretches := walk.ahead():
            wave = self._wave(load, sources, latest, counting, stretches)
            given = [
                (stretch, 0 if counting or number else left, _aside(load, wave.sources[stretch.file], stretch))
                for number, stretch in enumerate(stretches)
            ]
            reached = self._read(partial(_store, wave), given, stretches, doing)
            places = [each.place for each in reached]
            right = Walk.right(stretches, places)
            if counting:
                totals = list(accumulate(each.result.rows for each in reached[:right]))
                known = sum(total <= left for total in totals)
                counting, left = known == right, left - (totals[known - 1] if known else 0)
                stretches, right = stretches[:known], known
            else:
                left = 0
            if stretches:
                walk.take(stretches, places)
            stored = [each.result for each in reached[:right]]
            for each in stored:
                for rejected in self._rejected(each, wave):
                    yield Batch(empty, rejected, 0)
                yield Batch(empty, (), each.read)
            self._remove([each.result for each in reached[right:]], wave)
            if any(each.files for each in stored):
                yield _written(stored, wave)
            elif not (wave.counting or load.timing.holds):
                with writing_load(load) as writer:
                    writer.loads.let_go(load.load_id)

    def _wave(
        self,
        load: Load,
        sources: Sequence[FileSource],
        latest: int | None,
        counting: bool,
        stretches: Sequence[Stretch],
    ) -> Wave:
        with writing_load(load) as writer:
            table = writer.tables.by_id(load.table.table_id)
            ensure(writer, table)
            form = Table(writer.data / table.path).form()
            # Rows that are counted are not stored, and do not depend on the watermark.
            floor = writer.reservations.effective_watermark() if counting else writer.loads.hold(load.load_id)
            now = time_of(writer.home(), self._to.clock())
        used = {stretch.file: sources[stretch.file] for stretch in stretches}
        return Wave(used, load.timing, latest, table, form, counting, floor, now, _REJECTED_BYTES // len(stretches))

    def _rejected(self, stored: Stored, wave: Wave) -> Iterator[tuple[RejectedRecord, ...]]:
        if stored.rejected:
            yield stored.rejected
        if stored.rejected_in is not None:
            yield from rejected_in(wave.form.folder / stored.rejected_in)
            self._remove([replace(stored, files=())], wave)

    def _remove(self, unneeded: Sequence[Stored], wave: Wave) -> None:
        """Remove the files of parts that do not count. Cleaning deletes files that stay."""
        for each in unneeded:
            for name in (*(file[0] for file in each.files), *filter(None, [each.rejected_in])):
                with suppress(OSError, StorageError):
                    (wave.form.folder / name).remove()


def _chosen(given: Mapping[int, Given], numbers: Iterable[int]) -> dict[int, Given]:
    """Return those values that the tasks need. They have the keys of an object store, so a command has few of them."""
    return {number: given[number] for number in dict.fromkeys(numbers)}


def _aside(load: Load, source: FileSource, stretch: Stretch) -> frozenset[str]:
    """Return the positions in the stretch that an earlier run of the load quarantined, such as "line 7"."""
    first, end = stretch.begin[1], None if stretch.end is None else stretch.end[1]
    return frozenset(
        position
        for position in load.aside.get(source.name, ())
        if first < int(position.split()[1]) and (end is None or int(position.split()[1]) <= end)
    )


def _written(stored: Sequence[Stored], wave: Wave) -> Written:
    files = tuple(NewFile(wave.form.folder / file[0], *file[1:]) for each in stored for file in each.files)
    bounds = [each.bounds for each in stored if each.bounds is not None]
    first, last = min(first for first, _ in bounds), max(last for _, last in bounds)
    return Written(files, sum(each.late for each in stored), first, last, wave.floor)


def _returned(function: Callable[Parameters, Result]) -> Callable[Parameters, Result | WeftError]:
    """Return an error about the content of a file as a result. Spark repeats a task that raises any other error."""

    @wraps(function)
    def called(*given: Parameters.args, **named: Parameters.kwargs) -> Result | WeftError:
        use_one_thread()
        try:
            return function(*given, **named)
        except (ExtractionError, Refused) as error:
            return error

    return called


@_returned
def _survey(files: Mapping[int, InputFile], block: tuple[int, int, int]) -> Surveyed:
    number, begin, size = block
    file = files[number]
    quote = {"csv": _QUOTE, "json": b"", "parquet": None}[format_by_name(file.path) or "parquet"]
    return _bytes_read(file, lambda stream: survey(stream, begin, size, quote))


@_returned
def _whole(files: Mapping[int, InputFile], number: int) -> str:
    return _bytes_read(files[number], lambda stream: digests_of(stream)[0])


def _bytes_read(file: InputFile, read: Callable[[BinaryIO], Result]) -> Result:
    """Return the result of ``read`` for the bytes of a file that does not change meanwhile. Raise ExtractionError."""
    try:
        with file.opened() as stream:
            found = read(stream)
        file.check_unchanged()
    except OSError as error:
        raise unreadable(file, error) from None
    return found


@_returned
def _look(files: Mapping[int, tuple[InputFile, FileInspection | None, FileOptions]], stretch: Stretch) -> Reached[Seen]:
    """Return the evidence for the types in a part of a text file, or check the pages of a part of a Parquet file."""
    file, inspection, options = files[stretch.file]
    part = stretch.part()
    seen: Seen = {}
    if inspection is not None and inspection.layout.format == "parquet":
        try:
            with file.parquet(part):
                return Reached(stretch.end or (-1, -1), seen)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(file, error) from None
    with connect(threads=1) as connection, file.text(part.position) as stream:
        if inspection is None:
            seen = evidence_in_json(file, stream, options, connection, part)
        else:
            layout = inspection.layout
            seen = bulk.infer_types(stream, layout.dialect, layout.names, connection, part)
    file.check_unchanged()
    return Reached((part.position, part.before), seen)


@_returned
def _store(wave: Wave, given: tuple[Stretch, int, frozenset[str]]) -> Reached[Stored]:
    """Write the rows of a part but the first ``skip``, or only count them. Each batch becomes a file."""
    stretch, skip, aside = given
    source, part = wave.sources[stretch.file], stretch.part()
    done = Stored()
    with RejectedFile(wave.form.folder / new_name(*task_numbers()), wave.rejected_bytes) as rejected:
        for batch in source.batches(wave.timing, wave.latest, aside=aside, part=part):
            rejected.add(batch.rejected)
            done = replace(done, read=done.read + batch.read, rows=done.rows + batch.rows.num_rows)
            rows, skip = batch.rows.slice(skip), max(skip - batch.rows.num_rows, 0)
            if rows.num_rows and not wave.counting:
                done = wave.stored(done, rows)
        source.inspection.file.check_unchanged()
        records, name = rejected.finished()
    return Reached((part.position, part.before), replace(done, rejected=records, rejected_in=name))
