// Everything an environment header may use. It stays free of the standard library, so that one
// header serves the CPU engine and the GPU kernel alike.
#pragma once

#include "engine/contract.hpp"
#include "engine/math.hpp"
#include "engine/platform.hpp"
#include "engine/random.hpp"
#include "engine/spec.hpp"
