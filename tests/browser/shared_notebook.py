"""The notebook that tests of views share: one kernel and one page, with a cell for each purpose.

Two functions run in it: `train`, a training step, and `over`, which runs on two devices. Each has a
dashboard of its own, in which it was chosen.
"""

from __future__ import annotations

from playwright.sync_api import Browser, Locator, expect

from tests.browser.lab import Lab, Notebook

SETUP = """
import pathlib, threading, time
import eagerflow as ef

net = ef.nn.Sequential(
    ef.nn.Linear(64, 128), ef.nn.functional.relu, ef.nn.Linear(128, 128), ef.nn.functional.relu,
    ef.nn.Linear(128, 10),
)
optimiser = ef.optim.Adam(net.trainable, lr=0.01)
x, y = ef.random.normal((256, 64)), ef.zeros((256, 10))
fit = ef.value_and_grad(lambda x, y: ((net(x) - y) ** 2).mean(), wrt=net.trainable)

@ef.trace
def train(x, y):
    loss, gradients = fit(x, y)
    optimiser.update(gradients)
    return loss

_ = train(x, y)

def gate(name):
    "Wait for the test."
    while not pathlib.Path(name).exists():
        time.sleep(0.01)
"""
DEVICES = """
ef.config(cpu_devices=2)
weight = ef.Variable(ef.ones((64, 64)).to("cpu:1"), name="weight")

@ef.trace
def over(x):
    with ef.device("cpu:1"):
        y = ef.relu(x.to("cpu:1") @ weight.value.T + 1.0)
    return ef.sin(y.to("cpu:0"))

def run(seconds):
    end = time.time() + seconds
    while time.time() < end:
        over(ef.ones((64, 64)))
        time.sleep(0.01)

run(0.1)
"""
#: seconds that a cell computes, and seconds of processor time that it gets in any case
SECONDS, OF_PROCESSOR = 2.5, 2.0
NUMPY = f"""
end, busy, steps = time.time() + {SECONDS}, time.process_time() + {OF_PROCESSOR}, 0
while time.time() < end or time.process_time() < busy:
    loss = train(x, y)
    steps += 1
print(steps, "steps in", steps, "rounds")
"""
PYTHON = f"""
end, busy, rounds = time.time() + {SECONDS}, time.process_time() + {OF_PROCESSOR}, 0
while time.time() < end or time.process_time() < busy:
    rounds += 1
    loss = train(x, y) if rounds % 20_000 == 0 else None
print(rounds // 20_000, "steps in", rounds, "rounds")
"""
PRINTS = """
for line in range(1000):
    loss = train(x, y)
    print("line", line)
"""
LOOP = """
def wait(i):
    if int(i) == 7:
        gate("loop")
    return i

@ef.trace
def count(n):
    return ef.while_loop(lambda i: i < n, lambda i: ef.py_call(wait, "i64[]", i) + 1, ef.tensor(0))

_ = count(ef.tensor(3))
"""
QUEUES = """
letters, answers = ef.Queue(4, "f32[]", name="letters"), ef.Queue(2, "f32[]", name="answers")
for i in range(3):
    letters.enqueue(float(i))
reader = threading.Thread(target=answers.dequeue)
reader.start()
gate("queues")
answers.enqueue(1.0)
reader.join()
print("read")
"""
OBJECTS = """
weights = ef.Variable(ef.arange(12.0).reshape(3, 4), name="weights")
ef.show(weights)
"""
HUNDRED = """
import gc
import ipywidgets
from eagerflow.watching import shared
from eagerflow_widgets.front_end import open_view

def left():
    gc.collect()
    return len(ipywidgets.widgets.widget._instances), threading.active_count()

def once():
    for thing in (train, weights):
        view = ef.show(thing)
        view._repr_mimebundle_()
        view.close()

once()
before = left()
for _ in range(50):
    once()
print(left() == before, len(shared.panels._asked))
"""
CELLS = {
    "setup": SETUP, "devices": DEVICES,
    "dashboard": "look = ef.dashboard()\nlook", "other dashboard": "other = ef.dashboard()\nother",
    "both": "for _ in range(3):\n    train(x, y)\nrun(0.1)", "graph": "ef.show(train)",
    "objects": OBJECTS, "model": "ef.show(net)",
    "numpy": NUMPY, "python": PYTHON, "prints": PRINTS,
    "prepare": LOOP, "show loop": "ef.show(count)",
    "loop": "print('end', int(count(ef.tensor(9))))",
    "queues": QUEUES,
    "few": "for _ in range(20):\n    train(x, y)", "briefly": "run(0.5)",
    "run": "while not pathlib.Path('observed').exists():\n    run(0.1)",
    "frozen": "run(0.5)\npathlib.Path('ended').touch()",
    "told": "number = over.latest().executable.number\n"
    "other._watcher.collect()  # the last steps of the cell before\n"
    "print(f'{other._watcher.log.of(number).count:,}')",
    "assign": "weights.assign(weights.value * float('nan'))",
    "hundred": HUNDRED,
}  # fmt: skip
AT = {name: number for number, name in enumerate(CELLS)}
#: anywidget's message about views closed before the page has set them up
EARLY = "[anywidget] Failed to initialize model"


def open_shared(lab: Lab, browser: Browser) -> Notebook:
    """The notebook, with views of everything."""
    made = lab.open(
        browser, "shared", list(CELLS.values()), viewport={"width": 1400, "height": 1000}
    )
    shown = range(AT["numpy"])
    for cell in shown:
        made.start(cell)
    made.wait_for_end(shown[-1])
    for name, function in (("dashboard", "train"), ("other dashboard", "over")):
        made.view(AT[name]).locator(".ef-choice").select_option(label=function)
    expect(made.view(AT["graph"]).locator(".ef-now")).to_contain_text("3 steps")
    return made


def tab(dashboard: Locator, name: str) -> Locator:
    """The panel of a tab, after a click on the tab."""
    dashboard.locator(f'[data-tab="{name}"]').click()
    panel = dashboard.get_by_role("tabpanel", name=name)
    expect(panel).to_be_visible()
    return panel
