// The attacker, in a process of its own with the lowest priority unless it races: a real attacker uses a machine of its own, and takes no
// core from the service.
import { constants, setPriority } from 'node:os';
import { answerParent } from '../../../bench/process/asked.ts';
import { ROWS } from '../catalogue.ts';
import type { Outcome } from './attack.ts';
import type { AttackOrder } from './start-attack.ts';

answerParent<AttackOrder, Outcome>(async ({ row, target }) => {
  const found = ROWS.find(({ name }) => name === row);
  if (found === undefined) throw new Error(`there is no row ${row}`);
  setPriority(found.isRace === true ? constants.priority.PRIORITY_NORMAL : constants.priority.PRIORITY_LOW);
  return found.attack(target);
});
