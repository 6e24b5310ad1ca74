/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/spillway_dispatch.h"

int in_c(void)
{
	struct spillway_domain *domain = spillway_domain_open("native", 0, 0, 0);

	if (!domain)
		return 4;
	spillway_domain_close(domain);
	return 0;
}
