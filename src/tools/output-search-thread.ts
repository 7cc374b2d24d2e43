import { parentPort, workerData } from 'node:worker_threads';
import { findRows, type OutputSearch } from './output-rows.ts';

const search: OutputSearch = workerData;
parentPort?.postMessage(findRows(search));
