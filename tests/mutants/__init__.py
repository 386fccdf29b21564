"""Does a test fail where the tool is wrong? Small errors, put in one at a time."""
