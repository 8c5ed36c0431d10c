declare module 'asciichart' {
  export function plot(series: readonly number[] | readonly (readonly number[])[], options?: { readonly height?: number }): string;
}
