import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';

/** Colours of the report: one hue a meaning, the same in every chart. */
export const COLOURS = {
  queue: '#b4bccb',
  fetch: '#8a63b8',
  prefill: '#3f74c4',
  transfer: '#e2903f',
  decode: '#3f9d7c',
  main: '#2f5fa8',
  second: '#c2553d',
  grid: '#e4e7ec',
  ink: '#1c2430',
} as const;

export const TIER_COLOURS = ['#2f5fa8', '#5f94d6', '#9dc3ec', '#cfdff2', '#eceff4'] as const;

const FONT = 'Inter, "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif';

/** Options of Observable Plot, which draws the charts. */
export type PlotOptions = Plot.PlotOptions;

/** Draws one chart as static SVG text. */
export function chart(options: PlotOptions): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>');
  const figure = Plot.plot({
    document: document as never,
    marginTop: 28,
    marginRight: 18,
    marginBottom: 40,
    marginLeft: 56,
    // As an object: linkedom's elements refuse a style given as text.
    style: { fontFamily: FONT, fontSize: '11.5px', color: COLOURS.ink, background: 'none', overflow: 'visible' },
    ...options,
  }) as unknown as { outerHTML: string; setAttribute(name: string, value: string): void };
  figure.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  return figure.outerHTML;
}

/** Simulated time in the unit that reads best: s, min or h. */
export interface TimeAxis {
  unit: string;
  /** Seconds in one unit. */
  seconds: number;
}

export function timeAxis(simulatedSeconds: number): TimeAxis {
  if (simulatedSeconds > 4 * 3600) return { unit: 'h', seconds: 3600 };
  return simulatedSeconds > 600 ? { unit: 'min', seconds: 60 } : { unit: 's', seconds: 1 };
}

/** A number with three significant digits and thousands separators; a dash for what is absent. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString('en-US', {
    maximumFractionDigits: digits,
    minimumFractionDigits: size >= 1 && !Number.isInteger(value) ? digits : 0,
  });
}

/** A duration given in ms, in the unit that reads best. */
export function formatMs(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms >= 60_000) return `${formatNumber(ms / 60_000)} min`;
  return ms >= 1000 ? `${formatNumber(ms / 1000)} s` : `${formatNumber(ms)} ms`;
}

export function formatShare(share: number | null | undefined): string {
  return share === null || share === undefined || Number.isNaN(share)
    ? '–'
    : `${(share * 100).toFixed(share >= 0.9995 || share === 0 ? 0 : 1)} %`;
}

/** Text for HTML: nothing of a run's names may become markup. */
export function escapeHtml(text: unknown): string {
  return String(text ?? '–')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** A tick of an axis that may reach millions: 0, 0.5, 200, 2.5k, 3M. */
export function shortTick(value: number): string {
  if (Math.abs(value) < 1000) return String(Number(value.toPrecision(4)));
  return value < 1e6 ? `${Number((value / 1e3).toPrecision(4))}k` : `${Number((value / 1e6).toPrecision(4))}M`;
}
