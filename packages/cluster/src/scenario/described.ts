import { z } from 'zod';

// Numbers of a scenario with what they are, for editors and for messages.

export const count = (description: string, least = 1) => z.int().min(least).describe(description);
export const positive = (description: string) => z.number().positive().finite().describe(description);
export const notNegative = (description: string) => z.number().min(0).describe(description);
export const share = (description: string) => z.number().min(0).max(1).describe(description);
