/**
 * Numbers of the recorded coding session (465 steps, 449 calls, 55 user messages), to which the generator of
 * conversations is fitted. Lengths are UTF-16 units, as their quantiles.
 */

/** Pairs of a share and a value: this share of the values is at or below the value. */
export type Quantiles = readonly (readonly [share: number, value: number])[];

export const RECORDED_LENGTHS = {
  user: [
    [0, 2],
    [0.1, 12],
    [0.25, 39],
    [0.5, 80],
    [0.75, 235],
    [0.9, 373],
    [0.95, 668],
    [1, 2_153],
  ],
  /** Only steps with a text count; see `RECORDED_SHARES.steps`. */
  text: [
    [0, 12],
    [0.1, 33],
    [0.25, 50],
    [0.5, 80],
    [0.75, 127],
    [0.9, 408],
    [0.95, 894],
    [0.99, 4_899],
    [1, 16_007],
  ],
  reasoning: [
    [0, 60],
    [0.1, 89],
    [0.25, 169],
    [0.5, 507],
    [0.75, 1_186],
    [0.9, 2_139],
    [0.95, 2_973],
    [1, 5_391],
  ],
  toolInput: [
    [0, 40],
    [0.1, 78],
    [0.25, 107],
    [0.5, 138],
    [0.75, 442],
    [0.9, 1_481],
    [0.95, 3_769],
    [0.99, 13_283],
    [1, 55_797],
  ],
  toolOutput: [
    [0, 0],
    [0.1, 23],
    [0.25, 140],
    [0.5, 193],
    [0.75, 1_247],
    [0.9, 3_600],
    [0.95, 6_669],
    [0.99, 47_784],
    [1, 51_266],
  ],
  error: [
    [0, 15],
    [0.25, 39],
    [0.5, 181],
    [0.75, 5_144],
    [1, 14_985],
  ],
} as const satisfies Record<string, Quantiles>;

/** Steps from one user message to the next. */
export const RECORDED_STEPS_PER_TURN: Quantiles = [
  [0, 1],
  [0.1, 1],
  [0.25, 2],
  [0.5, 5],
  [0.75, 10],
  [0.9, 30],
  [0.95, 33],
  [1, 51],
];

/** Shares, each of the things that its comment names. */
export const RECORDED_SHARES = {
  /** Shares of the steps. */
  steps: { withText: 0.54, withReasoning: 0.1, withoutCalls: 0.07, withParallelCalls: 0.02 },
  /** Shares of the calls. */
  calls: { bash: 0.46, edit: 0.28, read: 0.23, write: 0.03, failed: 0.03 },
  /** Share of the user messages that are right behind another one. */
  usersInARow: 0.15,
  /** Share of the turns whose last step calls no tool. */
  answeredTurns: 0.66,
} as const;

/** The value at a share of the distribution, interpolated linearly between two quantiles. */
export function valueAt(quantiles: Quantiles, share: number): number {
  const above = quantiles.findIndex(([upTo]) => upTo >= share);
  const [toShare, to] = quantiles[above] ?? [1, 0];
  const [fromShare, from] = quantiles[above - 1] ?? [0, to];
  return toShare === fromShare ? to : Math.round(from + ((share - fromShare) / (toShare - fromShare)) * (to - from));
}
