CREATE TABLE config.config_entry (
  id int unsigned NOT NULL AUTO_INCREMENT,
  phid varbinary(64) NOT NULL,
  namespace varchar(64) NOT NULL,
  configKey varchar(64) NOT NULL,
  value longtext NOT NULL,
  isDeleted tinyint(1) NOT NULL,
  dateCreated int unsigned NOT NULL,
  dateModified int unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB;

CREATE TABLE acme.acme_thing (
  id int unsigned NOT NULL AUTO_INCREMENT,
  phid varbinary(64) NOT NULL,
  name varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  mail varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DEFAULT NULL,
  bytes longblob NOT NULL,
  flags tinyint(1) NOT NULL,
  size bigint unsigned NOT NULL DEFAULT 7,
  dateCreated int unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE acme.acme_edge (
  src varbinary(64) NOT NULL,
  dst varbinary(64) NOT NULL
) ENGINE=InnoDB;
