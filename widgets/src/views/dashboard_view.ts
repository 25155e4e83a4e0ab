/** The dashboard: a sentence, the time of steps, and all views in tabs. */

import { onTheme, themeOf } from "../colours";
import { button, html, KEYS, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { number } from "../feed/tables";
import { seconds } from "../format";
import { GraphView, MOST as MOST_BOXES } from "../graph/view";
import type { ViewModel } from "../passes/stages";
import { Canvas2d } from "./canvas2d";
import { CausePath } from "./cause_path";
import { LayersView } from "./layers_view";
import { NodesView } from "./nodes_view";
import { QueuesView } from "./queues_view";
import { TimelineView } from "./timeline_view";
import type { View } from "./view";

/** seconds that the sparkline shows: few at first, so that it is not empty */
const [FEWEST, MOST] = [30, 120];

/** seconds without a step after which a function counts as idle */
const IDLE = 3;
/** seconds from the first picture within which the view may still change to another function */
const SETTLED = 5;

interface Tab {
  readonly name: string;
  readonly label: HTMLButtonElement;
  readonly panel: HTMLElement;
  readonly view: View;
}

export class DashboardView implements View {
  readonly element = html("div", { class: "ef-dashboard" });
  private readonly sentence = html("p", { class: "ef-sentence" }, "no step yet");
  private readonly faults = html("ul", { class: "ef-faults", "aria-label": "problems" });
  private readonly spark = new Canvas2d(40, "mean time of a step over the last two minutes");
  private readonly range = html("small", { class: "ef-range" });
  private readonly choice = html("select", { "aria-label": "function", class: "ef-choice", ...KEYS });
  private readonly graph: GraphView;
  private readonly nothing = html("p", { class: "ef-empty" }, "The graph appears with the first step of a running function.");
  private readonly path = new CausePath((name) => { this.pickNamed(name); }); // prettier-ignore
  private readonly layers: LayersView;
  private readonly nodes: NodesView;
  private readonly timeline: TimelineView;
  private readonly tabs: Tab[] = [];
  private readonly panels = html("div", { class: "ef-panels" });
  /** whether all views are visible at once */
  private all = false;
  private readonly unlisten: () => void;
  private current = 0;
  private executable = 0;
  /** time at which a function was first shown, by the clock of the kernel */
  private first: number | null = null;
  /** whether the reader has chosen the function */
  private picked = false;

  constructor(private readonly feed: Feed, model: ViewModel) {
    this.graph = new GraphView(feed, MOST_BOXES, model);
    this.layers = new LayersView(feed);
    this.nodes = new NodesView(feed);
    const graph: View = {
      element: html("div", {}, this.nothing, this.graph.element, this.path.element),
      update: (seen) => { if (seen) this.graph.update(); },
      resize: () => { this.graph.resize(); },
      dispose: () => { this.graph.dispose(); },
    }; // prettier-ignore
    this.timeline = new TimelineView(feed, (executable) => { this.pick(executable); }); // prettier-ignore
    this.add("graph", graph);
    this.add("timeline", this.timeline);
    this.add("queues", new QueuesView(feed, []));
    this.add("layers", this.layers);
    this.add("nodes", this.nodes);
    this.graph.element.hidden = true; // hides the tools of a picture that is not there yet
    const bar = html("div", { class: "ef-tabs", role: "tablist", "aria-label": "views" },
      ...this.tabs.map((tab) => tab.label)); // prettier-ignore
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.turn((this.current + step + this.tabs.length) % this.tabs.length);
      this.tabs[this.current]!.label.focus();
    });
    this.choice.addEventListener("change", () => { this.pick(Number(this.choice.value)); }); // prettier-ignore
    const grid = button("grid", "all views at once, or one in a tab", () => {
      this.all = !this.all;
      grid.setAttribute("aria-pressed", String(this.all));
      this.turn(this.current);
    });
    grid.setAttribute("aria-pressed", "false");
    this.panels.append(...this.tabs.map((tab) => tab.panel));
    this.element.append(
      html("div", { class: "ef-head" }, this.sentence,
        html("div", { class: "ef-spark" }, this.spark.element, this.range)),
      this.faults,
      html("div", { class: "ef-bar" }, bar, html("div", { class: "ef-choices" }, this.choice, grid)),
      this.panels,
    ); // prettier-ignore
    this.unlisten = onTheme(() => { this.drawSpark(); }); // prettier-ignore
    this.turn(0);
  }

  private add(name: string, view: View): void {
    const label = html("button", { type: "button", role: "tab", "data-tab": name, ...KEYS }, name);
    const panel = html("div", { class: "ef-panel", role: "tabpanel", "aria-label": name }, view.element);
    const position = this.tabs.length;
    label.addEventListener("click", () => { this.turn(position); }); // prettier-ignore
    this.tabs.push({ name, label, panel, view });
  }

  private turn(to: number): void {
    this.current = to;
    this.tabs.forEach((tab, i) => {
      tab.panel.hidden = !this.all && i !== to;
      tab.label.setAttribute("aria-selected", String(i === to));
      tab.label.tabIndex = i === to ? 0 : -1;
    });
    this.element.classList.toggle("ef-grid", this.all);
    for (const tab of this.tabs) if (!tab.panel.hidden) tab.view.resize();
  }

  /** Show the graph of another function, until the reader chooses again. */
  private pick(executable: number): void {
    this.picked = true;
    this.choose(executable);
  }

  private choose(executable: number): void {
    if (executable === this.executable || !executable) return;
    this.executable = executable;
    this.timeline.mark(executable);
    this.choice.value = String(executable);
    void this.feed.structure(executable).then((structure) => {
      if (executable !== this.executable) return;
      this.nothing.hidden = true;
      this.graph.element.hidden = false;
      this.graph.resize();
      this.graph.show(structure, executable);
      this.layers.show(structure, executable);
      this.nodes.show(structure, executable);
    });
  }

  update(seen: boolean): void {
    const [summary] = this.feed.list("summary");
    if (summary) {
      setText(this.sentence, summary["sentence"] as string);
      if (!this.picked && (this.isNew() || this.isIdle())) this.choose(number(summary, "busiest"));
      this.tellFaults();
    }
    this.listFunctions();
    this.tabs.forEach((tab, i) => {
      tab.view.update(seen && (this.all || i === this.current));
    });
    if (seen) this.drawSpark();
  }

  /** Show diagnoses, a line each; one line is always there, so that nothing below it jumps. */
  private tellFaults(): void {
    const rows = this.feed.list("diagnoses");
    this.path.show(rows);
    const lines = rows.map((row) => row["text"] as string);
    const undecided = (this.feed.list("summary")[0]?.["undecided"] as string | undefined) ?? "";
    const isOpen = !this.executable || undecided !== "";
    if (!lines.length) lines.push(!this.executable ? "Nothing runs yet." : undecided ? `No fault so far; ${undecided}.` : "Nothing stands out.");
    while (this.faults.children.length > lines.length) this.faults.lastElementChild!.remove();
    lines.forEach((text, i) => {
      const line = this.faults.children[i] ?? this.faults.appendChild(html("li", {}));
      setText(line, text);
      line.classList.toggle("ef-none", !rows.length);
      line.classList.toggle("ef-idle", !rows.length && isOpen);
    });
  }

  /** Show the newest function of a name. */
  private pickNamed(name: string): void {
    const named = [...this.feed.table("executables")].filter((row) => this.feed.name(row, "name") === name);
    this.pick(Math.max(0, ...named.map((row) => number(row, "executable"))));
  }

  /** Whether the first picture is so recent that it may change: runners begin before their consumer. */
  private isNew(): boolean {
    if (this.executable) this.first ??= this.feed.now();
    return this.first === null || this.feed.now() - this.first < SETTLED;
  }

  /** Whether the function shown is idle: while it runs it stays, as nothing may jump while one reads. */
  private isIdle(): boolean {
    const steps = this.feed.row("steps", this.executable);
    return !steps || this.feed.now() - number(steps, "last") > IDLE;
  }

  private listFunctions(): void {
    const rows = [...this.feed.table("executables")];
    this.choice.hidden = rows.length < 2;
    if (this.choice.options.length === rows.length) return;
    this.choice.replaceChildren(...rows.map((row) => {
      const value = number(row, "executable");
      return html("option", { value, selected: value === this.executable }, this.feed.name(row, "name"));
    })); // prettier-ignore
  }

  private drawSpark(): void {
    const drawing = this.spark.begin();
    const summary = this.feed.list("summary")[0];
    if (!drawing || !summary) return;
    const { context, width, height } = drawing;
    const busiest = number(summary, "busiest");
    const buckets = [...this.feed.table("curve")]
      .filter((row) => number(row, "executable") === busiest)
      .sort((a, b) => number(a, "start") - number(b, "start"))
      .slice(-MOST);
    if (!buckets.length) return;
    const theme = themeOf(this.element);
    const top = Math.max(...buckets.map((row) => number(row, "mean")));
    const last = number(buckets[buckets.length - 1]!, "start");
    const shown = Math.min(Math.max(last - number(buckets[0]!, "start") + 1, FEWEST), MOST);
    context.fillStyle = theme.accent;
    for (const row of buckets) {
      const x = width - (last - number(row, "start") + 1) * (width / shown);
      const high = Math.max((number(row, "mean") / top) * (height - 4), 1);
      if (x > -2) context.fillRect(x, height - high, Math.max(width / shown - 1, 1), high);
    }
    setText(this.range, `mean of a step, up to ${seconds(top)}`);
  }

  resize(): void {
    for (const tab of this.tabs) if (!tab.panel.hidden) tab.view.resize();
    this.drawSpark();
  }

  dispose(): void {
    this.unlisten();
    for (const tab of this.tabs) tab.view.dispose();
  }
}
