/** x^-p for x > 0 through exp and log: unlike Math.pow these agree between Node versions. The common orders are exact. */
export function inversePower(x: number, p: number): number {
  if (p === 1) return 1 / x;
  if (p === 2) return 1 / (x * x);
  return Math.exp(-p * Math.log(x));
}
