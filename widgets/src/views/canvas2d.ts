/** A canvas of the size of its element, sharp on every screen. */

import { html } from "../dom";

export class Canvas2d {
  readonly element: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D | null;

  constructor(height: number, label: string) {
    this.element = html("canvas", { role: "img", "aria-label": label });
    this.element.style.height = `${height}px`;
    this.context = this.element.getContext("2d");
  }

  /** Clear the drawing; its size is in pixels of the page; null if it is not visible. */
  begin(): { context: CanvasRenderingContext2D; width: number; height: number } | null {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!this.context || !width || !height) return null;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.element.width !== w || this.element.height !== h) {
      this.element.width = w;
      this.element.height = h;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = "11px system-ui, sans-serif";
    return { context: this.context, width, height };
  }
}
