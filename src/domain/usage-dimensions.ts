export const USAGE_DIMENSIONS = ['day', 'agent', 'model', 'tenant'] as const;

export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];
