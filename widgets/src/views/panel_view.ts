/** A panel about an object other than a graph: lines, bars, a picture, a table. */

import { html, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { Bars } from "./bars";
import type { View } from "./view";

/** The data of a panel, as `Panel` of eagerflow/views/panels.py. */
interface Panel {
  readonly title: string;
  readonly alarm?: string;
  readonly lines?: readonly (readonly [term: string, text: string])[];
  readonly bars?: readonly number[];
  readonly bars_label?: string;
  readonly picture?: string;
  readonly picture_label?: string;
  readonly columns?: readonly string[];
  readonly rows?: readonly (readonly string[])[];
  readonly shares?: readonly number[];
}

export class PanelView implements View {
  readonly element = html("div", { class: "ef-object" });
  private readonly title = html("h4", {});
  private readonly alarm = html("p", { class: "ef-alarm", role: "status" });
  private readonly list = html("dl", {});
  private readonly bars = new Bars();
  private readonly picture = html("img", { class: "ef-image" });
  private readonly caption = html("figcaption", {});
  private readonly figure = html("figure", { hidden: true }, this.picture, this.caption);
  private readonly head = html("tr", {});
  private readonly body = html("tbody", {});
  private readonly table = html("table", { hidden: true }, html("thead", {}, this.head), this.body);
  private seen = -1;

  constructor(
    private readonly feed: Feed,
    private readonly number: number,
  ) {
    const text = html("div", { class: "ef-said" }, this.list, this.bars.element);
    this.element.append(this.title, this.alarm,
      html("div", { class: "ef-object-parts" }, text, this.figure),
      html("div", { class: "ef-nodes" }, this.table)); // prettier-ignore
  }

  update(seen: boolean): void {
    const revision = this.feed.revision("panels");
    const row = this.feed.row("panels", this.number);
    if (!seen || !row || revision === this.seen) return;
    this.seen = revision;
    this.show(JSON.parse(row["text"] as string) as Panel);
  }

  private show(panel: Panel): void {
    setText(this.title, panel.title);
    setText(this.alarm, panel.alarm ?? "");
    const lines = (panel.lines ?? []).flatMap(([term, text]) => [html("dt", {}, term), html("dd", {}, text)]);
    this.list.replaceChildren(...lines);
    this.bars.show(panel.bars ?? [], panel.bars_label ?? "");
    this.figure.hidden = !panel.picture;
    if (panel.picture && this.picture.src !== panel.picture) this.picture.src = panel.picture;
    this.picture.alt = panel.picture_label ?? "";
    setText(this.caption, panel.picture_label ?? "");
    this.showTable(panel);
  }

  private showTable({ columns = [], rows = [], shares = [] }: Panel): void {
    this.table.hidden = !rows.length;
    if (this.head.cells.length !== columns.length) {
      this.head.replaceChildren(...columns.map((name) => html("th", { scope: "col" }, name)));
    }
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((texts, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      texts.forEach((text, column) => {
        const cell = line.cells[column] ?? line.insertCell();
        setText(cell, text);
        cell.title = text;
      });
      const share = shares[i];
      const last = line.cells[texts.length - 1];
      last?.classList.toggle("ef-shared", share !== undefined);
      if (share !== undefined) last?.style.setProperty("--ef-share", String(share));
    });
  }

  resize(): void {
    this.update(true);
  }

  dispose(): void {
    this.body.replaceChildren();
  }
}
