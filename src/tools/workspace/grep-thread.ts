import { parentPort, workerData } from 'node:worker_threads';
import { type GrepRequest, grepSearch } from './grep-search.ts';

const request: GrepRequest = workerData;
parentPort?.postMessage(await grepSearch(request));
