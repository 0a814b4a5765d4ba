/** What the operator's interface answers. */

export type RunState = "queued" | "running" | "succeeded" | "failed";

export interface Quality {
  held_out: number;
  rmse: number;
  rmse_low: number;
  rmse_high: number;
  constant_rmse: number;
}

export interface Run {
  id: number;
  state: RunState;
  model: string;
  seed: number;
  reports: number | null;
  devices: number | null;
  items: number | null;
  iterations: number;
  of_iterations: number | null;
  trace: { objective: number[]; likelihood: (number | null)[] };
  seconds: number | null;
  error: string | null;
  quality: Quality | null;
  hour: string;
  published: boolean;
}

export interface Stats {
  reports: number;
  devices: number;
  items: number;
  policies: { id: string; mechanism: string; epsilon: string; reports: number }[];
  hours: { hour: string; accepted: number; duplicates: number; rejected: number }[];
  rejections: Record<string, number>;
  epsilon: { from: string; to: string; devices: number }[];
  runs: Run[];
  sizing: {
    database_bytes: number;
    bytes_per_report: number | null;
    model_bytes: number | null;
    training_memory_bytes: number | null;
    advice: string[];
  };
}

/** Whether a run has yet to end. */
export function isOpen(run: Run): boolean {
  return run.state === "queued" || run.state === "running";
}
