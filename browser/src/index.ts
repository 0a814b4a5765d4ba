/** tacit on a person's device, in the browser: true ratings come in, perturbed reports go out. */
export { totalLoss, type Totals } from "./accounting.ts";
export { Channel } from "./channel.ts";
export { encodeCompact } from "./compact.ts";
export { Device, type DeviceOptions, type LedgerExport } from "./device.ts";
export {
  BudgetError,
  ConsentError,
  DeviceError,
  ModelError,
  PolicyError,
  RatingChangedError,
  RatingError,
  ReportError,
  TacitError,
} from "./errors.ts";
export { ItemModel } from "./item-model.ts";
export { Policy } from "./policy.ts";
export type { Quote } from "./quote.ts";
export { PersonalRanking, rankItems, type ListOptions, type Reason, type Suggestion } from "./ranking.ts";
export type { Report } from "./report.ts";
export { RatingScale } from "./scale.ts";
export { Uplink, type SendResult } from "./uplink.ts";
