/**
 * `idle`: no run. `busy`: a run is queued or works. `requires_action`: a run waits for somebody.
 * `closed`: takes nothing more.
 */
export const SESSION_STATUSES = ['idle', 'busy', 'requires_action'] as const;
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/**
 * How a message to a busy session is taken up: `steer` at the next step boundary of the active run, `followup` in a run
 * of its own afterwards, `interrupt` likewise, and the active run is cancelled.
 */
export const DELIVERIES = ['steer', 'followup', 'interrupt'] as const;
export type Delivery = (typeof DELIVERIES)[number];
