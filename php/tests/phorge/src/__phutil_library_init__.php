<?php

phutil_register_library('phabricator', __FILE__);
