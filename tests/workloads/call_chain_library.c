// SPDX-License-Identifier: Apache-2.0
#include "call_chain.h"

#ifdef OTHER /* another build: every function lies elsewhere */
AS_WRITTEN int another_function(int number)
{
	volatile int numbers[100] = {number};

	return numbers[number] + numbers[0];
}
#endif

static AS_WRITTEN void library_inner(step next)
{
	volatile char local[48] = "";

	next();
	(void)local;
}

AS_WRITTEN void library_enter(step next)
{
	library_inner(next);
}

AS_WRITTEN void library_nothing(void)
{
}
