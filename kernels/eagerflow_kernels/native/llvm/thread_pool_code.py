"""The text of the functions of the pool of threads (see `native.thread_pool`).

``@pool_parallel(pool, run, args, dims, steps, arrays, axes)`` makes one call of a kernel in chunks
of rows, which the calling thread and the workers claim by a counter. If the workers are busy with
another call, or none wakes in time, the calling thread does all chunks. ``@pool_worker(pool)`` is
the endless loop of the workers' threads; no signal that is sent to the process interrupts them.

``@control_poll(control, done)`` is called by kernels of regions at intervals (`native.control`); a
result other than 0 ends them. The calling thread asks Python, at longer intervals; workers check
whether Python has told it to end.

A worker joins by adding 1 to ``active`` while ``open`` is 1. The call ends when ``open`` is 0 and
no worker is active; both are sequentially consistent, so no worker is inside afterwards.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

#: offsets into the memory of the pool; words that threads write often have a cache line each
FIELDS: Final = {
    "parallel": 0, "least": 8, "helpers": 16, "syscall": 24, "create": 32, "futex": 40,
    "lock": 64, "generation": 128, "active": 192, "open": 256, "next": 320,
    "count": 384, "chunk": 392, "rows": 400, "run": 408, "args": 416, "dims": 424, "steps": 432,
    "arrays": 440, "axes": 448, "workers": 456, "sigmask": 464, "signals": 512,
    "self": 640, "clock": 648, "clock_id": 656, "ensure": 664, "release": 672, "call": 680,
    "fetch": 688, "drop": 696, "owner": 704, "control_poll": 712, "worker": 768,
}  # fmt: skip
#: ``signals`` is a set of signals, which has 128 bytes in glibc and musl; ``worker`` is a control
SIZE: Final = 896
#: offsets into the control of a region (see `native.control`)
CONTROL: Final = {
    "pool": 0, "poll": 8, "done": 16, "next": 24, "stopped": 32, "flag": 40, "begin": 48,
    "last": 56, "ask": 64, "type": 72, "value": 80, "trace": 88, "kind": 96,
}  # fmt: skip
CONTROL_SIZE: Final = 128
#: terms times elements between looks at the clock: some milliseconds at most
QUANTUM: Final = 1 << 24
#: kinds of controls: a control that only counts, and the workers'; all others may end their kernel
COUNTS: Final = 1
WORKS: Final = 2
#: nanoseconds between questions to Python
_PERIOD: Final = 30_000_000
#: the most arrays of a kernel
_MOST: Final = 64
#: parts of a call for each thread, so that a delayed thread delays the call less
_PARTS: Final = 4
#: larger chunks have a multiple of this number of rows, so that they share no cache line
_ROUND: Final = 64
#: checks of the calling thread for the end before it sleeps
_SPINS: Final = 2000
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE
_SET_MASK: Final = 2  # SIG_SETMASK

_TEXT: Final = """
define internal void @chunks(ptr %pool, ptr %control) noinline nounwind {{
entry:
  %given = alloca ptr, i64 {most}, align 16
  %sizes = alloca i64, i64 2, align 16
  {next}
  {count}
  {chunk}
  {rows}
  {run}
  {args}
  {dims}
  {steps}
  {arrays}
  {axes}
  %last = load i64, ptr %count, align 8
  %size = load i64, ptr %chunk, align 8
  %all = load i64, ptr %rows, align 8
  %function = load ptr, ptr %run, align 8
  %a = load ptr, ptr %args, align 8
  %d = load ptr, ptr %dims, align 8
  %s = load ptr, ptr %steps, align 8
  %n = load i64, ptr %arrays, align 8
  %m = load i64, ptr %axes, align 8
  %two = icmp sgt i64 %m, 1
  br i1 %two, label %inner, label %claim
inner:
  %length.at = getelementptr i8, ptr %d, i64 8
  %length = load i64, ptr %length.at, align 8
  %length.to = getelementptr i8, ptr %sizes, i64 8
  store i64 %length, ptr %length.to, align 8
  br label %claim
claim:
  %i = atomicrmw add ptr %next, i64 1 monotonic, align 8
  %more = icmp slt i64 %i, %last
  br i1 %more, label %take, label %done
take:
  %first = mul i64 %i, %size
  %left = sub i64 %all, %first
  %short = icmp slt i64 %left, %size
  %here = select i1 %short, i64 %left, i64 %size
  store i64 %here, ptr %sizes, align 8
  br label %place
place:
  %k = phi i64 [0, %take], [%k.next, %place]
  %place.offset = mul i64 %k, 8
  %from = getelementptr i8, ptr %a, i64 %place.offset
  %to = getelementptr i8, ptr %given, i64 %place.offset
  %by = getelementptr i8, ptr %s, i64 %place.offset
  %base = load ptr, ptr %from, align 8
  %step = load i64, ptr %by, align 8
  %moved = mul i64 %step, %first
  %start = getelementptr i8, ptr %base, i64 %moved
  store ptr %start, ptr %to, align 8
  %k.next = add i64 %k, 1
  %placed = icmp sge i64 %k.next, %n
  br i1 %placed, label %work, label %place
work:
  call void %function(ptr %given, ptr %sizes, ptr %s, ptr %control)
  br label %claim
done:
  ret void
}}

define internal i64 @futex(ptr %pool, ptr %word, i64 %operation, i64 %value) noinline nounwind {{
  {syscall}
  {futex}
  %call = load ptr, ptr %syscall, align 8
  %number = load i64, ptr %futex, align 8
  %r = call i64 (i64, ...) %call(i64 %number, ptr %word, i64 %operation, i64 %value, ptr null)
  ret i64 %r
}}

define internal ptr @pool_worker(ptr %pool) nounwind {{
entry:
  {generation}
  {open}
  {active}
  {helpers}
  {sigmask}
  {signals}
  %block = load ptr, ptr %sigmask, align 8
  %blocked = call i32 %block(i32 {set_mask}, ptr %signals, ptr null)
  br label %look
look:
  %g = load atomic i32, ptr %generation seq_cst, align 4
  %o = load atomic i32, ptr %open seq_cst, align 4
  %is = icmp ne i32 %o, 0
  br i1 %is, label %join, label %sleep
join:
  %before = atomicrmw add ptr %active, i32 1 seq_cst, align 4
  %still = load atomic i32, ptr %open seq_cst, align 4
  %is.still = icmp ne i32 %still, 0
  %before.wide = sext i32 %before to i64
  %most = load i64, ptr %helpers, align 8
  %wanted = icmp slt i64 %before.wide, %most
  %may = and i1 %is.still, %wanted
  br i1 %may, label %work, label %leave
work:
  {worker}
  call void @chunks(ptr %pool, ptr %worker)
  br label %leave
leave:
  %was = atomicrmw sub ptr %active, i32 1 seq_cst, align 4
  %alone = icmp eq i32 %was, 1
  br i1 %alone, label %tell, label %sleep
tell:
  %t = call i64 @futex(ptr %pool, ptr %active, i64 {wake}, i64 1)
  br label %sleep
sleep:
  %g.wide = sext i32 %g to i64
  %w = call i64 @futex(ptr %pool, ptr %generation, i64 {wait}, i64 %g.wide)
  br label %look
}}

define void @pool_parallel(
  ptr %pool, ptr %function, ptr %a, ptr %d, ptr %s, i64 %n, i64 %m, ptr %control
) nounwind {{
entry:
  %thread = alloca i64, align 8
  {helpers}
  {lock}
  {workers}
  {next}
  {count}
  {chunk}
  {rows}
  {run}
  {args}
  {dims}
  {steps}
  {arrays}
  {axes}
  {open}
  {generation}
  {active}
  {create}
  {owner}
  {self}
  {worker}
  %most = load i64, ptr %helpers, align 8
  %some = icmp sgt i64 %most, 0
  br i1 %some, label %try, label %alone
try:
  %tried = cmpxchg ptr %lock, i32 0, i32 1 seq_cst seq_cst, align 4
  %got = extractvalue {{i32, i1}} %tried, 1
  br i1 %got, label %staff, label %alone
alone:
  call void %function(ptr %a, ptr %d, ptr %s, ptr %control)
  ret void
staff:
  %there = load i64, ptr %workers, align 8
  %enough = icmp sge i64 %there, %most
  br i1 %enough, label %prepare, label %hire
hire:
  %begin = load ptr, ptr %create, align 8
  %failed = call i32 %begin(ptr %thread, ptr null, ptr @pool_worker, ptr %pool)
  %hired = icmp eq i32 %failed, 0
  br i1 %hired, label %counted, label %prepare
counted:
  %there.more = add i64 %there, 1
  store i64 %there.more, ptr %workers, align 8
  br label %staff
prepare:
  %all = load i64, ptr %d, align 8
  %threads = add i64 %most, 1
  %pieces = mul i64 %threads, {parts}
  %all.above = add i64 %all, %pieces
  %all.below = sub i64 %all.above, 1
  %part = udiv i64 %all.below, %pieces
  %many = icmp uge i64 %part, {round}
  %rounded = and i64 %part, {mask}
  %size = select i1 %many, i64 %rounded, i64 %part
  %size.above = add i64 %all, %size
  %size.below = sub i64 %size.above, 1
  %calls = udiv i64 %size.below, %size
  store i64 %calls, ptr %count, align 8
  store i64 %size, ptr %chunk, align 8
  store i64 %all, ptr %rows, align 8
  store ptr %function, ptr %run, align 8
  %who = load ptr, ptr %self, align 8
  %me = call i64 %who()
  store i64 %me, ptr %owner, align 8
  %worker.done = getelementptr i8, ptr %worker, i64 {control_done}
  %worker.next = getelementptr i8, ptr %worker, i64 {control_next}
  %worker.flag = getelementptr i8, ptr %worker, i64 {control_flag}
  store i64 0, ptr %worker.done, align 8
  store i64 {quantum}, ptr %worker.next, align 8
  store i64 0, ptr %worker.flag, align 8
  store ptr %a, ptr %args, align 8
  store ptr %d, ptr %dims, align 8
  store ptr %s, ptr %steps, align 8
  store i64 %n, ptr %arrays, align 8
  store i64 %m, ptr %axes, align 8
  store atomic i64 0, ptr %next seq_cst, align 8
  store atomic i32 1, ptr %open seq_cst, align 4
  %g = atomicrmw add ptr %generation, i32 1 seq_cst, align 4
  %woken = call i64 @futex(ptr %pool, ptr %generation, i64 {wake}, i64 %most)
  call void @chunks(ptr %pool, ptr %control)
  store atomic i32 0, ptr %open seq_cst, align 4
  br label %look
look:
  %spin = phi i64 [0, %prepare], [%spin.next, %again]
  %inside = load atomic i32, ptr %active seq_cst, align 4
  %over = icmp eq i32 %inside, 0
  br i1 %over, label %end, label %rest
rest:
  %tired = icmp sgt i64 %spin, {spins}
  br i1 %tired, label %sleep, label %again
sleep:
  %inside.wide = sext i32 %inside to i64
  %w = call i64 @futex(ptr %pool, ptr %active, i64 {wait}, i64 %inside.wide)
  br label %again
again:
  %spin.next = add i64 %spin, 1
  br label %look
end:
  %counts = icmp ne ptr %control, null
  br i1 %counts, label %add, label %free
add:
  %own.done = getelementptr i8, ptr %control, i64 {control_done}
  %mine = load i64, ptr %own.done, align 8
  %theirs = load i64, ptr %worker.done, align 8
  %both = add i64 %mine, %theirs
  store i64 %both, ptr %own.done, align 8
  br label %free
free:
  store i64 0, ptr %owner, align 8
  store atomic i32 0, ptr %lock seq_cst, align 4
  ret void
}}

define i64 @control_poll(ptr %control, i64 %done) noinline nounwind {{
entry:
  %time = alloca i64, i64 2, align 16
  {control.pool}
  {control.next}
  {control.stopped}
  {control.flag}
  {control.last}
  {control.ask}
  {control.type}
  {control.value}
  {control.trace}
  {control.kind}
  %pool = load ptr, ptr %pool.at, align 8
  {self}
  {clock}
  {clock_id}
  {ensure}
  {release}
  {call}
  {fetch}
  {drop}
  {owner}
  {worker}
  %later = add i64 %done, {quantum}
  store i64 %later, ptr %next.at, align 8
  %kind = load i64, ptr %kind.at, align 8
  %counts = icmp eq i64 %kind, {counts}
  br i1 %counts, label %go, label %look
look:
  %works = icmp eq i64 %kind, {works}
  br i1 %works, label %told, label %mine
told:
  %word = load atomic i64, ptr %flag.at monotonic, align 8
  ret i64 %word
mine:
  %who = load ptr, ptr %self, align 8
  %me = call i64 %who()
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %ended = icmp eq i64 %stopped, %me
  br i1 %ended, label %stop, label %others
others:
  %another = icmp ne i64 %stopped, 0
  br i1 %another, label %go, label %hour
hour:
  %tell = load ptr, ptr %clock, align 8
  %which = load i32, ptr %clock_id, align 4
  %told.time = call i32 %tell(i32 %which, ptr %time)
  %fraction.at = getelementptr i8, ptr %time, i64 8
  %seconds = load i64, ptr %time, align 8
  %fraction = load i64, ptr %fraction.at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %fraction
  %before = load i64, ptr %last.at, align 8
  %passed = sub i64 %now, %before
  %due = icmp sge i64 %passed, {period}
  br i1 %due, label %question, label %go
question:
  store i64 %now, ptr %last.at, align 8
  %begin = load ptr, ptr %ensure, align 8
  %end = load ptr, ptr %release, align 8
  %calls = load ptr, ptr %call, align 8
  %asked = load ptr, ptr %ask.at, align 8
  %state = call i32 %begin()
  %answer = call ptr %calls(ptr %asked)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %raise, label %fine
fine:
  %frees = load ptr, ptr %drop, align 8
  call void %frees(ptr %answer)
  call void %end(i32 %state)
  br label %go
raise:
  %takes = load ptr, ptr %fetch, align 8
  call void %takes(ptr %type.at, ptr %value.at, ptr %trace.at)
  store atomic i64 %me, ptr %stopped.at monotonic, align 8
  store atomic i64 1, ptr %flag.at monotonic, align 8
  call void %end(i32 %state)
  %owns = load i64, ptr %owner, align 8
  %shares = icmp eq i64 %owns, %me
  br i1 %shares, label %spread, label %stop
spread:
  %worker.flag = getelementptr i8, ptr %worker, i64 {control_flag}
  store atomic i64 1, ptr %worker.flag monotonic, align 8
  br label %stop
stop:
  store i64 0, ptr %next.at, align 8
  ret i64 1
go:
  ret i64 0
}}
"""


def render_pool() -> str:
    """The text of the module, which is the same for all targets."""
    places = {
        name: f"%{name} = getelementptr i8, ptr %pool, i64 {at}" for name, at in FIELDS.items()
    }
    control = {
        name: f"%{name}.at = getelementptr i8, ptr %control, i64 {at}"
        for name, at in CONTROL.items()
    }
    return _TEXT.format(
        **places, control=SimpleNamespace(**control), quantum=QUANTUM, period=_PERIOD,
        **{f"control_{name}": CONTROL[name] for name in ("done", "next", "flag")},
        counts=COUNTS, works=WORKS, most=_MOST, parts=_PARTS, round=_ROUND, mask=-_ROUND,
        spins=_SPINS,
        wait=_WAIT, wake=_WAKE, set_mask=_SET_MASK,
    )  # fmt: skip
