import type { Caller } from '../domain/access.ts';
import type { AuditedAction } from '../domain/audit.ts';
import { formatId } from '../domain/ids.ts';
import { appendAudit, type NewAuditEntry } from '../store/around/audit.ts';
import type { Tx } from '../store/db/database.ts';

/**
 * Who acts, for the audit log. `keyId` null: no key was needed, or no person acts: a schedule, a hook, a program with
 * Baton in it. `session`: the grant of the caller's token.
 */
export type Actor = Pick<Caller, 'tenantId' | 'keyId' | 'session'>;

/** The service itself, in the name of a tenant. */
export const serviceActor = (tenantId: string): Actor => ({ tenantId, keyId: null });

/** @param target a path of the API, whichever door the act came by */
export const auditEntry = ({ tenantId, keyId }: Actor, action: AuditedAction, target: string): NewAuditEntry => ({
  tenantId,
  keyId,
  action,
  target,
});

/** Audits an act in its transaction: neither is committed without the other. */
export const auditAct = (tx: Tx, actor: Actor, action: AuditedAction, target: string): Promise<void> =>
  appendAudit(tx, auditEntry(actor, action, target));

export const sessionPath = (sessionId: string): string => `/v1/sessions/${formatId('session', sessionId)}`;

export const runPath = (runId: string): string => `/v1/runs/${formatId('run', runId)}`;
