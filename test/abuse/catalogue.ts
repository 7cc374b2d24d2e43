import type { Row } from './row.ts';
import { BODIES } from './rows/bodies.ts';
import { FLOODS } from './rows/floods.ts';
import { HOLDING } from './rows/holding.ts';
import { NEIGHBOURS } from './rows/neighbours.ts';
import { PROVIDERS } from './rows/providers.ts';
import { STORES } from './rows/stores.ts';
import { STRANGERS } from './rows/strangers.ts';
import { TOOLS } from './rows/tools.ts';
import { WORKSPACE } from './rows/workspace.ts';

/** Every kind of abuse that the service must stand. */
export const ROWS: readonly Row[] = [
  ...FLOODS,
  ...HOLDING,
  ...BODIES,
  ...NEIGHBOURS,
  ...PROVIDERS,
  ...WORKSPACE,
  ...TOOLS,
  ...STORES,
  ...STRANGERS,
];
