/** Constants of the reaction point; see `dcqcnSettings`. */
export interface RateControlSettings {
  lineBytesPerSecond: number;
  leastBytesPerSecond: number;
  /** Weight g of the congestion estimate. */
  gain: number;
  alphaPeriodNs: number;
  increasePeriodNs: number;
  increaseBytes: number;
  /** Steps of fast recovery before the target itself is raised. */
  recoverySteps: number;
  additiveBytesPerSecond: number;
  /** Least time between two congestion notifications for a flow at its receiver. */
  notificationPeriodNs: number;
}

/** One flow's sending rate. Plain data. */
export interface RateControl {
  currentBytesPerSecond: number;
  targetBytesPerSecond: number;
  alpha: number;
  alphaDueNs: number;
  increaseDueNs: number;
  timerSteps: number;
  byteSteps: number;
  bytesSinceStep: number;
  cuts: number;
}

/**
 * DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) with its published constants: g = 1/256,
 * alpha and rate timers 55 us, byte counter 10 MB, F = 5, notifications at most every 50 us, additive step 40 Mb/s on a 40 Gb/s
 * port, here kept in proportion to the port (1/1000). Without the optional hyper increase. Least rate 1/1000 of the port.
 */
export function dcqcnSettings(lineBytesPerSecond: number): RateControlSettings {
  return {
    lineBytesPerSecond,
    leastBytesPerSecond: lineBytesPerSecond / 1000,
    gain: 1 / 256,
    alphaPeriodNs: 55_000,
    increasePeriodNs: 55_000,
    increaseBytes: 10e6,
    recoverySteps: 5,
    additiveBytesPerSecond: lineBytesPerSecond / 1000,
    notificationPeriodNs: 50_000,
  };
}

/** A flow starts at line rate with alpha = 1, as DCQCN does. */
export function createRateControl(settings: RateControlSettings, nowNs: number): RateControl {
  return {
    currentBytesPerSecond: settings.lineBytesPerSecond,
    targetBytesPerSecond: settings.lineBytesPerSecond,
    alpha: 1,
    alphaDueNs: nowNs + settings.alphaPeriodNs,
    increaseDueNs: nowNs + settings.increasePeriodNs,
    timerSteps: 0,
    byteSteps: 0,
    bytesSinceStep: 0,
    cuts: 0,
  };
}

/**
 * A congestion notification has come: cut the rate by alpha / 2, raise alpha, start recovery anew. The rate before becomes the target only when
 * it had risen by the timer since the last cut, as NICs do by default (`ClampTargetRate` false in the HPCC paper's public ns-3 code): else a
 * row of notifications for one and the same queue would take the target down with the rate.
 *
 * Equal flows do not end together even so. Alpha starts at 1 and decays over 256 periods (14 ms), so chance gives flows unlike rates early on,
 * and from there they rise by a thousandth of the line each 55 us. Measured against fair shares over six seeds, four flows of 131 MB on a
 * 50 GB/s port: the last one ends 16 % late (30 % with the target always lowered); with flows of 524 MB about 5 %.
 */
export function cutRate(control: RateControl, settings: RateControlSettings, nowNs: number): void {
  passTime(control, settings, nowNs);
  if (control.timerSteps > 0 || control.cuts === 0) control.targetBytesPerSecond = control.currentBytesPerSecond;
  const cut = control.currentBytesPerSecond * (1 - control.alpha / 2);
  control.currentBytesPerSecond = Math.max(settings.leastBytesPerSecond, cut);
  control.alpha += settings.gain * (1 - control.alpha);
  control.alphaDueNs = nowNs + settings.alphaPeriodNs;
  control.increaseDueNs = nowNs + settings.increasePeriodNs;
  control.timerSteps = 0;
  control.byteSteps = 0;
  control.bytesSinceStep = 0;
  control.cuts++;
}

/** Lets the timers run up to `nowNs`; called before a rate is used, so that timers need no events of their own. */
export function passTime(control: RateControl, settings: RateControlSettings, nowNs: number): void {
  // Bound on catching up after long idle times: by then alpha is 0 to all purposes and the rate at the line.
  if (nowNs - control.alphaDueNs > CATCH_UP_STEPS * settings.alphaPeriodNs) {
    control.alphaDueNs += Math.floor((nowNs - control.alphaDueNs) / settings.alphaPeriodNs - CATCH_UP_STEPS) * settings.alphaPeriodNs;
  }
  while (control.alphaDueNs <= nowNs) {
    control.alpha -= control.alpha * settings.gain;
    control.alphaDueNs += settings.alphaPeriodNs;
  }
  while (control.increaseDueNs <= nowNs) {
    if (isAtLine(control, settings)) {
      control.increaseDueNs += (Math.floor((nowNs - control.increaseDueNs) / settings.increasePeriodNs) + 1) * settings.increasePeriodNs;
      return;
    }
    control.timerSteps++;
    raiseRate(control, settings);
    control.increaseDueNs += settings.increasePeriodNs;
  }
}

const CATCH_UP_STEPS = 20_000;

/** Counts bytes sent towards the byte-driven increase. */
export function noteSent(control: RateControl, settings: RateControlSettings, bytes: number): void {
  control.bytesSinceStep += bytes;
  if (control.bytesSinceStep < settings.increaseBytes) return;
  control.bytesSinceStep -= settings.increaseBytes;
  control.byteSteps++;
  raiseRate(control, settings);
}

function raiseRate(control: RateControl, settings: RateControlSettings): void {
  if (Math.max(control.timerSteps, control.byteSteps) > settings.recoverySteps) {
    control.targetBytesPerSecond = Math.min(settings.lineBytesPerSecond, control.targetBytesPerSecond + settings.additiveBytesPerSecond);
  }
  control.currentBytesPerSecond = (control.targetBytesPerSecond + control.currentBytesPerSecond) / 2;
  // Halving the distance for ever would never arrive.
  if (control.currentBytesPerSecond > settings.lineBytesPerSecond * (1 - 1e-9)) control.currentBytesPerSecond = settings.lineBytesPerSecond;
}

function isAtLine(control: RateControl, settings: RateControlSettings): boolean {
  return control.currentBytesPerSecond === settings.lineBytesPerSecond && control.targetBytesPerSecond === settings.lineBytesPerSecond;
}
