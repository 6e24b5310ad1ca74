// SPDX-License-Identifier: Apache-2.0
// Results and errors by their old name, until every room includes base/error.h itself.
#pragma once

#include "base/error.h"
