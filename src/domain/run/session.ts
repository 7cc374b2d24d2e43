/** `idle`: no active run. `busy`: it is queued or works. `requires_action`: it waits for a person or a client. */
export const SESSION_STATUSES = ['idle', 'busy', 'requires_action'] as const;
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/**
 * How an active run affects a message. `steer`: the message joins its next step. `followup`: the message gets the next
 * run. `interrupt`: the same, and the active run is cancelled.
 */
export const DELIVERIES = ['steer', 'followup', 'interrupt'] as const;
export type Delivery = (typeof DELIVERIES)[number];
