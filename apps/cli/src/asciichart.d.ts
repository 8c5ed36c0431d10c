declare module 'asciichart' {
  export function plot(series: readonly number[], options?: { readonly height?: number }): string;
}
