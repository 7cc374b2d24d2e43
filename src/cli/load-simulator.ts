import { loadOptional } from '../platform/optional-packages.ts';

const NEED = { purpose: 'simulated models', packages: ['gpt-tokenizer'] };

/**
 * The simulated provider, and what its models do when they act as an agent.
 * @throws BatonError `config_invalid` without the package of its tokenizer
 */
export const loadSimulator = () =>
  loadOptional(NEED, async () => {
    const [{ startSimulator }, { agentScript }] = await Promise.all([
      import('../../simulator/server.ts'),
      import('../../simulator/lead-script.ts'),
    ]);
    return { startSimulator, agentScript };
  });
