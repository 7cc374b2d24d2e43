import type { ExpectedBody } from '../api/body-limit.ts';

/** A body that was read, and the room that it has. */
export type ReadBody = Readonly<{
  form: ExpectedBody['form'];
  /** Its bytes, once: later calls get none. */
  take: () => Buffer;
  /** Counts it as a body of this tenant. @throws ProblemError `intake_full` */
  moveTo: (tenantId: string) => void;
  /** Gives its room back before the route has answered. */
  release: () => void;
}>;
