import type { Wait } from '@baton-run/server/client';
import { plural } from '../format.ts';

/** The words for the event that a session waits for. */
export function waitWords({ kind, toolNames, count }: Wait): string {
  const tools = toolNames.join(', ');
  switch (kind) {
    case 'approval':
      return `approval of ${tools}${count > 1 ? ` (${plural(count, 'call')})` : ''}`;
    case 'output':
      return `output of ${tools}${count > 1 ? ` (${plural(count, 'call')})` : ''}`;
    case 'unknown_outcome':
      return `outcome of ${tools} unknown`;
    case 'input':
      return `an answer to ${tools}${count > 1 ? ` (${plural(count, 'call')})` : ''}`;
    case 'child':
      return `the end of ${tools}${count > 1 ? ` (${plural(count, 'call')})` : ''}`;
    case 'worker':
      return 'a worker';
    case 'slot':
      return 'a slot of the tenant';
    case 'retry':
      return 'the provider, then retries';
    case 'compaction':
      return 'a compaction';
    case 'prune':
      return 'a prune';
  }
}

/** Whether a person or a client has to act. */
export const waitsForPerson = ({ kind }: Wait): boolean =>
  kind === 'approval' || kind === 'output' || kind === 'unknown_outcome' || kind === 'input';
