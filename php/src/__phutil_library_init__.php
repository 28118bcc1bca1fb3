<?php

phutil_register_library('gantry', __FILE__);
