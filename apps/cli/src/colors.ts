import picocolors from 'picocolors';

/**
 * Colours for a person at a terminal. Output that is piped or kept stays plain, also where `CI` is set (which picocolors alone takes for a
 * terminal); NO_COLOR and FORCE_COLOR are heeded.
 */
const wanted = process.env.FORCE_COLOR !== undefined || (process.stdout.isTTY === true && process.env.NO_COLOR === undefined);

export const colors = picocolors.createColors(wanted);
