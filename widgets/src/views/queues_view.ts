/** Queues and similar resources: levels over time, and waits. */

import { themeOf, type Theme } from "../colours";
import { html, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { count, rate, seconds } from "../format";
import { Canvas2d } from "./canvas2d";
import { QueueHistory } from "./queue_history";
import type { View } from "./view";

/** seconds that a chart shows */
const SHOWN = 30;

interface Card {
  readonly element: HTMLElement;
  readonly chart: Canvas2d;
  readonly level: HTMLElement;
  readonly flow: HTMLElement;
  readonly who: HTMLElement;
}

export class QueuesView implements View {
  readonly element = html("div", { class: "ef-queues" });
  private readonly verdict = html("p", { class: "ef-verdict" });
  private readonly list = html("div", { class: "ef-cards" });
  private readonly empty = html("p", { class: "ef-empty" }, "No queue was used yet since this looks.");
  private readonly cards = new Map<string, Card>();
  private readonly history: QueueHistory;
  /** whether the levels of queues without events were requested */
  private asked = false;

  constructor(
    private readonly feed: Feed,
    private readonly only: readonly string[],
  ) {
    this.history = new QueueHistory(feed);
    this.element.append(this.verdict, this.list, this.empty);
  }

  update(seen: boolean): void {
    this.history.observe();
    if (!seen) return;
    const rows = [...this.feed.table("queues")].filter((row) => {
      return !this.only.length || this.only.includes(this.feed.name(row, "queue"));
    });
    if (rows.length < this.only.length && !this.asked && this.feed.status === "live") {
      this.asked = true;
      this.feed.askLevels(this.only);
    }
    this.empty.hidden = rows.length > 0;
    setText(this.verdict, this.sentence(rows));
    this.verdict.hidden = !this.verdict.textContent;
    const wrong = new Set(this.feed.list("diagnoses").map((row) => this.feed.name(row, "queue")));
    for (const row of rows) this.draw(row, wrong.has(this.feed.name(row, "queue")));
  }

  resize(): void {
    this.update(true);
  }

  dispose(): void {
    this.cards.clear();
  }

  /** The open waits at a queue. */
  private open(name: string): Row[] {
    return this.feed.list("places").filter((row) => this.feed.name(row, "queue") === name);
  }

  /** The kernel's diagnoses of the queues shown, such as which stage is too slow. */
  private sentence(rows: readonly Row[]): string {
    if (!this.only.length) return ""; // the dashboard shows them above its tabs
    const shown = new Set(rows.map((row) => this.feed.name(row, "queue")));
    const told = this.feed.list("diagnoses").filter((row) => shown.has(this.feed.name(row, "queue")));
    return told.map((row) => row["text"] as string).join(" ");
  }

  private draw(row: Row, wrong: boolean): void {
    const name = this.feed.name(row, "queue");
    const card = this.cards.get(name) ?? this.add(name, this.feed.name(row, "resource"));
    const [depth, capacity] = [number(row, "depth"), number(row, "capacity")];
    const closed = number(row, "closed") ? " · closed" : "";
    const { put, taken } = this.history.rates(name);
    card.element.dataset["depth"] = String(depth);
    setText(card.level, `${count(depth)}${capacity ? ` of ${count(capacity)}` : ""}${closed}`);
    setText(card.flow, `${rate(put)} in, ${rate(taken)} out a second`);
    setText(card.who, this.waiters(row, name));
    card.element.classList.toggle("ef-wrong", wrong);
    this.chart(card, name, capacity);
  }

  private waiters(row: Row, name: string): string {
    const parts: string[] = [];
    const [producers, consumers] = [number(row, "producers"), number(row, "consumers")];
    if (producers) parts.push(`${producers} wait${producers === 1 ? "s" : ""} to put`);
    if (consumers) parts.push(`${consumers} wait${consumers === 1 ? "s" : ""} to take`);
    const since = Math.min(...this.open(name).map((r) => number(r, "since")));
    if (parts.length && Number.isFinite(since)) {
      parts.push(`for ${seconds(Math.max(this.feed.now() - since, 0))}`);
    }
    return parts.join(", ") || "no waits";
  }

  private add(name: string, resource: string): Card {
    const chart = new Canvas2d(72, `depth of ${name} over the last ${SHOWN} seconds`);
    const [level, flow, who] = ["ef-level", "ef-flow", "ef-who"].map((c) => html("span", { class: c }));
    const element = html("section", { class: "ef-card", "data-queue": name },
      html("h4", {}, name, html("small", {}, resource)),
      html("div", { class: "ef-line" }, level!, flow!, who!), chart.element); // prettier-ignore
    const card = { element, chart, level: level!, flow: flow!, who: who! };
    this.cards.set(name, card);
    this.list.append(element);
    return card;
  }

  private chart(card: Card, name: string, capacity: number): void {
    const drawing = card.chart.begin();
    if (!drawing) return;
    const { context, width, height } = drawing;
    const theme = themeOf(this.element);
    const samples = this.history.of(name);
    const top = Math.max(capacity || 0, ...samples.map((s) => s.depth), 1);
    const now = this.feed.told;
    const at = (time: number): number => width - 1 - ((now - time) / SHOWN) * (width - 34);
    const high = (depth: number): number => height - 4 - (depth / top) * (height - 18);
    axis(context, theme, width, high(0), high(top), `${top}`);
    context.beginPath();
    const shown = samples.filter((s, i) => (samples[i + 1] ?? s).time >= now - SHOWN);
    let before: number | null = null;
    for (const s of shown) {
      const x = Math.max(at(s.time), 34);
      if (before === null) context.moveTo(x, high(s.depth));
      else {
        context.lineTo(x, high(before)); // the level is constant until it changes
        context.lineTo(x, high(s.depth));
      }
      before = s.depth;
    }
    if (before === null) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.stroke();
    context.lineTo(width - 1, high(0));
    context.lineTo(Math.max(at(shown[0]!.time), 34), high(0));
    context.globalAlpha = 0.16;
    context.fillStyle = theme.accent;
    context.fill();
    context.globalAlpha = 1;
  }
}

function axis(
  context: CanvasRenderingContext2D, theme: Theme, width: number, low: number, high: number, top: string,
): void {
  context.strokeStyle = theme.line;
  context.fillStyle = theme.soft;
  context.lineWidth = 1;
  for (const y of [low, high]) {
    context.beginPath();
    context.moveTo(34, Math.round(y) + 0.5);
    context.lineTo(width, Math.round(y) + 0.5);
    context.stroke();
  }
  context.textAlign = "right";
  context.fillText("0", 28, low + 3);
  context.fillText(top, 28, high + 4);
  context.textAlign = "left";
} // prettier-ignore
