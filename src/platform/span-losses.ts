export const LOSS_REASONS = ['queue_full', 'export_failed'] as const;
export type LossReason = (typeof LOSS_REASONS)[number];

/** Spans that ended here and that no receiver has. */
export type SpansLost = Readonly<{ reason: LossReason; spans: number }>;
