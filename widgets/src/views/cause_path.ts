/** The path of causes below a graph: functions and queues from the cause to the waiting function. */

import { button, html } from "../dom";
import type { Row } from "../feed/tables";

export class CausePath {
  readonly element = html("ol", { class: "ef-path", "aria-label": "chain of causes", hidden: true });
  private told = "";

  /** @param pick shows the graph of a function, by its name */
  constructor(private readonly pick: (name: string) => void) {}

  /** @param diagnoses diagnoses of the kernel; the first one with a path of causes is shown */
  show(diagnoses: readonly Row[]): void {
    const first = diagnoses.find((row) => row["path"]);
    const path = (first?.["path"] as string | undefined) ?? "";
    if (path === this.told) return;
    this.told = path;
    this.element.hidden = !path;
    const names = path.split("\n");
    const begin = names[0] ? 2 : 3; // a function and its queue, or a queue and the stage that is stuck at it
    const parts = names.map((name, i) => ({ name, isQueue: i % 2 === 1, isCause: i < begin }));
    this.element.replaceChildren(...parts.filter(({ name }) => name).map(({ name, isQueue, isCause }) => {
      const title = `${isQueue ? "queue" : "function"} ${name}${isCause ? ", where it begins" : ""}`;
      const part = isQueue ? html("span", { class: "ef-path-queue", title }, name)
        : button(first?.["kind"] === "retraces" ? `↻ ${name}, retraced` : name, `${title}: show its graph`, () => { this.pick(name); }); // prettier-ignore
      part.classList.toggle("ef-cause", isCause);
      return html("li", {}, part);
    })); // prettier-ignore
  }
}
