<?php

phutil_register_library('gantry-test', __FILE__);
