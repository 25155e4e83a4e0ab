"""The text of the function that makes a joint call (see `native.joint_calls`).

``@joint_call(plan, arrays)`` checks each array of a list of Python: it must be an array of NumPy
with the dtype, the size and the flags of the plan, and, if the kernel writes into it, have no other
references. If all pass, the function runs the kernel on one set after the other, without the lock
of the interpreter, and returns 1. Else it does nothing and returns 0.
"""

from __future__ import annotations

from typing import Final

#: offsets into a plan
PLAN: Final = {
    "sets": 0, "operands": 8, "kernel": 16, "data": 24, "type": 32, "item": 40, "save": 48,
    "restore": 56, "pointers": 64, "steps": 72, "counts": 80, "checks": 88,
}  # fmt: skip
PLAN_SIZE: Final = 96
#: offsets into the checks of an array: ``references`` is 0 if the array may have other references,
#: or be a view
CHECK: Final = {"dtype": 0, "size": 8, "flags": 16, "references": 24}
CHECK_SIZE: Final = 32
#: offsets of fields in an array (``PyArrayObject_fields`` of NumPy's headers), if an object has two
#: words of Python's own: `joint_calls` checks that
ARRAY: Final = {
    "references": 0, "type": 8, "data": 16, "ndim": 24, "shape": 32, "base": 48, "dtype": 56,
    "flags": 64,
}  # fmt: skip

_TEXT: Final = """
define i64 @joint_call(ptr %plan, ptr %arrays) nounwind {{
entry:
  {plan[sets]}
  {plan[operands]}
  {plan[kernel]}
  {plan[data]}
  {plan[type]}
  {plan[item]}
  {plan[save]}
  {plan[restore]}
  {plan[pointers]}
  {plan[steps]}
  {plan[counts]}
  {plan[checks]}
  %sets = load i64, ptr %sets.at, align 8
  %operands = load i64, ptr %operands.at, align 8
  %kernel = load ptr, ptr %kernel.at, align 8
  %data = load ptr, ptr %data.at, align 8
  %type = load ptr, ptr %type.at, align 8
  %item = load ptr, ptr %item.at, align 8
  %save = load ptr, ptr %save.at, align 8
  %restore = load ptr, ptr %restore.at, align 8
  %pointers = load ptr, ptr %pointers.at, align 8
  %steps = load ptr, ptr %steps.at, align 8
  %counts = load ptr, ptr %counts.at, align 8
  %checks = load ptr, ptr %checks.at, align 8
  %all = mul i64 %sets, %operands
  br label %look
look:
  %i = phi i64 [0, %entry], [%i.next, %fits]
  %more = icmp slt i64 %i, %all
  br i1 %more, label %array, label %begin
array:
  %x = call ptr %item(ptr %arrays, i64 %i)
  %check.offset = mul i64 %i, {check_size}
  %check = getelementptr i8, ptr %checks, i64 %check.offset
  %x.type.at = getelementptr i8, ptr %x, i64 {array[type]}
  %x.type = load ptr, ptr %x.type.at, align 8
  %is.array = icmp eq ptr %x.type, %type
  br i1 %is.array, label %kind, label %no
kind:
  %x.dtype.at = getelementptr i8, ptr %x, i64 {array[dtype]}
  %x.dtype = load ptr, ptr %x.dtype.at, align 8
  %dtype.at = getelementptr i8, ptr %check, i64 {check[dtype]}
  %dtype = load ptr, ptr %dtype.at, align 8
  %right.dtype = icmp eq ptr %x.dtype, %dtype
  %x.flags.at = getelementptr i8, ptr %x, i64 {array[flags]}
  %x.flags.short = load i32, ptr %x.flags.at, align 4
  %x.flags = zext i32 %x.flags.short to i64
  %flags.at = getelementptr i8, ptr %check, i64 {check[flags]}
  %flags = load i64, ptr %flags.at, align 8
  %x.set = and i64 %x.flags, %flags
  %right.flags = icmp eq i64 %x.set, %flags
  %right = and i1 %right.dtype, %right.flags
  br i1 %right, label %alone, label %no
alone:
  %references.at = getelementptr i8, ptr %check, i64 {check[references]}
  %references = load i64, ptr %references.at, align 8
  %shared = icmp eq i64 %references, 0
  %x.references.at = getelementptr i8, ptr %x, i64 {array[references]}
  %x.references.short = load i32, ptr %x.references.at, align 4
  %x.references = zext i32 %x.references.short to i64
  %few = icmp eq i64 %x.references, %references
  %x.base.at = getelementptr i8, ptr %x, i64 {array[base]}
  %x.base = load ptr, ptr %x.base.at, align 8
  %own = icmp eq ptr %x.base, null
  %is.own = and i1 %few, %own
  %free = or i1 %shared, %is.own
  br i1 %free, label %measure, label %no
measure:
  %ndim.at = getelementptr i8, ptr %x, i64 {array[ndim]}
  %ndim.short = load i32, ptr %ndim.at, align 4
  %ndim = sext i32 %ndim.short to i64
  %shape.at = getelementptr i8, ptr %x, i64 {array[shape]}
  %shape = load ptr, ptr %shape.at, align 8
  br label %axis
axis:
  %k = phi i64 [0, %measure], [%k.next, %times]
  %product = phi i64 [1, %measure], [%product.next, %times]
  %another = icmp slt i64 %k, %ndim
  br i1 %another, label %times, label %measured
times:
  %length.offset = mul i64 %k, 8
  %length.at = getelementptr i8, ptr %shape, i64 %length.offset
  %length = load i64, ptr %length.at, align 8
  %product.next = mul i64 %product, %length
  %k.next = add i64 %k, 1
  br label %axis
measured:
  %size.at = getelementptr i8, ptr %check, i64 {check[size]}
  %size = load i64, ptr %size.at, align 8
  %right.size = icmp eq i64 %product, %size
  br i1 %right.size, label %fits, label %no
fits:
  %x.data.at = getelementptr i8, ptr %x, i64 {array[data]}
  %x.data = load ptr, ptr %x.data.at, align 8
  %pointer.offset = mul i64 %i, 8
  %pointer = getelementptr i8, ptr %pointers, i64 %pointer.offset
  store ptr %x.data, ptr %pointer, align 8
  %i.next = add i64 %i, 1
  br label %look
begin:
  %state = call ptr %save()
  %width = mul i64 %operands, 8
  br label %next
next:
  %s = phi i64 [0, %begin], [%s.next, %run]
  %left = icmp slt i64 %s, %sets
  br i1 %left, label %run, label %end
run:
  %set.offset = mul i64 %s, %width
  %count.offset = mul i64 %s, 8
  %set.pointers = getelementptr i8, ptr %pointers, i64 %set.offset
  %set.steps = getelementptr i8, ptr %steps, i64 %set.offset
  %set.count = getelementptr i8, ptr %counts, i64 %count.offset
  call void %kernel(ptr %set.pointers, ptr %set.count, ptr %set.steps, ptr %data)
  %s.next = add i64 %s, 1
  br label %next
end:
  call void %restore(ptr %state)
  ret i64 1
no:
  ret i64 0
}}
"""


def render_joint_call() -> str:
    """The text of the module, which is the same for all targets."""
    plan = {
        name: f"%{name}.at = getelementptr i8, ptr %plan, i64 {at}" for name, at in PLAN.items()
    }
    return _TEXT.format(plan=plan, check=CHECK, check_size=CHECK_SIZE, array=ARRAY)
