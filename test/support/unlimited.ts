import { DEFAULT_INBOX_LIMITS } from '../../src/domain/run/inbox-limits.ts';
import * as inbox from '../../src/store/changes/inbox.ts';
import * as resume from '../../src/store/changes/resume.ts';
import * as waiting from '../../src/store/changes/waiting.ts';
import type { Db, Tx } from '../../src/store/db/database.ts';
import { NO_QUOTA } from '../../src/store/session/quota.ts';

/** Changes of the store without a quota and with the default inbox, for tests that are not about limits. */

const UNLIMITED = { quota: NO_QUOTA, inboxLimits: DEFAULT_INBOX_LIMITS };

type Unlimited<Request> = Omit<Request, 'quota' | 'inboxLimits'> &
  Partial<Pick<typeof UNLIMITED, keyof Request & keyof typeof UNLIMITED>>;

export type UnlimitedMessage = Unlimited<inbox.NewInboxMessage>;

export const acceptMessage = (db: Db | Tx, message: UnlimitedMessage): Promise<inbox.AcceptedMessage> =>
  inbox.acceptMessage(db, { ...UNLIMITED, ...message });

export const resumeSession = (
  db: Db | Tx,
  request: Unlimited<Parameters<typeof resume.resumeSession>[1]>,
): Promise<resume.ResumedSession> => resume.resumeSession(db, { quota: NO_QUOTA, ...request });

export const changeWaiting = (
  db: Db | Tx,
  ref: Parameters<typeof waiting.changeWaiting>[1],
  change: Unlimited<Parameters<typeof waiting.changeWaiting>[2]>,
  freshRunId: string,
): Promise<waiting.ChangedWaiting> =>
  waiting.changeWaiting(db, ref, { inboxLimits: DEFAULT_INBOX_LIMITS, ...change }, freshRunId);
