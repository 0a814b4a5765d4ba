// Stochastic gradient steps for the plain objective (Eq. 1), one report after another.
#pragma once

#include "kernels.hpp"
#include "row_solver.hpp"
#include "vector.hpp"

namespace {

using tacit::SgdEpoch;

// Runs through reports [first, last) and returns the sum of squared residuals, each taken before its step.
template <int kVectors>
double sgd_steps(const SgdEpoch& epoch, int64_t first, int64_t last) {
  const int stride = kVectors ? kVectors * kLanes : epoch.stride;
  double squares = 0.0;
  for (int64_t report = first; report < last; ++report) {
    float* user = epoch.user_factors + int64_t(epoch.users[report]) * stride;
    float* item = epoch.item_factors + int64_t(epoch.items[report]) * stride;
    float value;
    decode(epoch.values, report, 1, &value);
    Vector products{};
    for (int at = 0; at < stride; at += kLanes) products += load(user + at) * load(item + at);
    float residual = value;
    for (int lane = 0; lane < kLanes; ++lane) residual -= products[lane];
    for (int at = 0; at < stride; at += kLanes) {
      const Vector of_user = load(user + at), of_item = load(item + at);
      store(user + at, of_user * load(epoch.user_keep + at) + residual * load(epoch.user_step + at) * of_item);
      store(item + at, of_item * load(epoch.item_keep + at) + residual * load(epoch.item_step + at) * of_user);
    }
    squares += double(residual) * double(residual);
  }
  return squares;
}

}  // namespace
