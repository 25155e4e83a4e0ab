/** A histogram of few bars, as elements of the page. */

import { html } from "../dom";

export class Bars {
  readonly element = html("div", { class: "ef-bars", role: "img" });

  show(values: readonly number[], label: string): void {
    const { element } = this;
    const top = Math.max(...values, 1e-300);
    element.hidden = !values.length;
    element.setAttribute("aria-label", label);
    element.title = label;
    while (element.childElementCount > values.length) element.lastElementChild!.remove();
    values.forEach((value, i) => {
      const bar = (element.children[i] ?? element.appendChild(html("i", {}))) as HTMLElement;
      bar.style.height = `${(100 * value) / top}%`;
    });
  }
}
