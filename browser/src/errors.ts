/**
 * Every deliberate error of the library.
 *
 * TacitError
 * ├── PolicyError              a policy document that cannot be obeyed
 * ├── RatingError              a rating that is not on the scale
 * ├── ReportError              a report that cannot be encoded, or was not taken
 * ├── ModelError               an item model that is not usable
 * └── DeviceError              the device refuses; nothing was said or spent
 *     ├── ConsentError         no consent to a policy was given
 *     ├── RatingChangedError   an item was rated differently before
 *     └── BudgetError          the lifetime cap would be crossed
 *
 * A message names the value, the limit and the remedy, in one line; never a true rating.
 */
export class TacitError extends Error {
  override get name(): string {
    return "TacitError";
  }
}

/** A policy document cannot be obeyed. */
export class PolicyError extends TacitError {
  override get name() {
    return "PolicyError";
  }
}

/** A rating is not on the scale. */
export class RatingError extends TacitError {
  override get name() {
    return "RatingError";
  }
}

/** A report cannot be encoded, or was not taken. */
export class ReportError extends TacitError {
  override get name() {
    return "ReportError";
  }
}

/** An item model is not usable. */
export class ModelError extends TacitError {
  override get name() {
    return "ModelError";
  }
}

/** The device refuses; nothing was said or spent. */
export class DeviceError extends TacitError {
  override get name(): string {
    return "DeviceError";
  }
}

/** No consent to a policy was given. */
export class ConsentError extends DeviceError {
  override get name() {
    return "ConsentError";
  }
}

/** An item was rated differently before. */
export class RatingChangedError extends DeviceError {
  override get name() {
    return "RatingChangedError";
  }
}

/** The lifetime cap would be crossed. */
export class BudgetError extends DeviceError {
  override get name() {
    return "BudgetError";
  }
}
