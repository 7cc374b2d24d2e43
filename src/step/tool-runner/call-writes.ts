import type { JobScope } from '../../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../../claims/retry-while-store-unavailable.ts';
import { afterEvent } from '../../commands/after-commit.ts';
import { BatonError } from '../../domain/errors.ts';
import { isStoreUnavailable } from '../../store/db/store-unavailable.ts';
import { type CallMove, type MoveAnswer, moveCalls } from '../../store/work/step-writes.ts';
import type { StepDeps } from '../deps.ts';
import { createWriteGroup } from '../write-group.ts';

/** The moves of one message's calls. The newest outcome may be held back, to be committed with the step's end. */
export type CallWrites = Readonly<{
  /** @throws BatonError `fenced`, `blocked_transition`; database errors */
  commit: (move: CallMove) => Promise<'moved' | 'cancelled'>;
  hold: (move: CallMove) => void;
  /** Commits the held outcome, unless the run is lost. */
  commitHeld: () => Promise<void>;
  /** Passes the held outcome to `endsWith`, which commits it. If that throws, the outcome is kept. */
  withHeld: <T>(endsWith: (moves: readonly CallMove[]) => Promise<T>) => Promise<T>;
}>;

export function createCallWrites(deps: StepDeps, scope: JobScope): CallWrites {
  let held: CallMove | null = null;
  const moveOf = createWriteGroup((moves: readonly CallMove[], failure) =>
    writeMoves(deps, scope, moves, isStoreUnavailable(failure)),
  );
  const commit = async (move: CallMove): Promise<'moved' | 'cancelled'> => {
    const answer = await moveOf(move);
    if (answer !== 'refused') return answer;
    throw new BatonError('blocked_transition', `the call is not ${move.from.join(' or ')}`);
  };
  return {
    commit,
    hold(move) {
      held = move;
    },
    async commitHeld() {
      const move = held;
      held = null;
      if (move !== null && scope.held.stopped() !== 'lost') await commit(move);
    },
    async withHeld(endsWith) {
      const done = await endsWith(held === null ? [] : [held]);
      held = null;
      return done;
    },
  };
}

/** @param wasAway the moves may have been committed before @throws BatonError `fenced` */
async function writeMoves(
  deps: StepDeps,
  scope: JobScope,
  moves: readonly CallMove[],
  wasAway: boolean,
): Promise<readonly MoveAnswer[]> {
  const { held, fence, sessionId } = scope;
  let isAgain = wasAway;
  const moved = await retryWhileStoreUnavailable(held, (isRepeated) => {
    isAgain ||= isRepeated;
    return moveCalls(deps.db, fence, moves);
  });
  if (moved === null) {
    held.stop('lost');
    throw new BatonError('fenced', 'another worker has the run');
  }
  afterEvent(deps, sessionId, moved);
  // Refused on a repeat: the first write was committed, and its reply was lost.
  return moved.answers.map((answer) => (isAgain && answer === 'refused' ? 'moved' : answer));
}
