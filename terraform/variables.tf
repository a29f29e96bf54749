variable "name" {
  description = "Prefix of all names, unique in the account and region, for example `compactor-prod`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,22}[a-z0-9]$", var.name))
    error_message = "Expected 3 to 24 lower-case letters, digits and dashes, beginning with a letter and not ending with a dash: bucket and role names contain it."
  }
}

variable "tags" {
  description = "Tags for all resources, in addition to those of the provider."
  type        = map(string)
  default     = {}
}

variable "lake" {
  description = <<-EOT
    The bucket of the tables. `bucket`: its name (default: `name`, `lake`, account and region). `create = false`: use an existing bucket and do
    not change its settings; `kms_key_arn` is its key, if it has one. `warehouse`: the prefix, for `warehouse:` in compactor.yaml.
    `noncurrent_days`: how long overwritten and deleted objects can be recovered. `guard_snapshots`: the bucket policy denies overwriting a
    Snapshot without a condition.
  EOT
  type = object({
    bucket          = optional(string)
    create          = optional(bool, true)
    kms_key_arn     = optional(string)
    warehouse       = optional(string, "warehouse")
    noncurrent_days = optional(number, 7)
    guard_snapshots = optional(bool, true)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.lake.create || var.lake.bucket != null
    error_message = "lake: `create = false` needs `bucket`, the name of the existing bucket."
  }

  validation {
    condition     = !var.lake.create || var.lake.kms_key_arn == null
    error_message = "lake.kms_key_arn is the key of an existing bucket; a new bucket uses the module's `kms_key_arn`."
  }

  validation {
    condition     = can(regex("^[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*$", var.lake.warehouse))
    error_message = "lake.warehouse: expected a prefix such as `warehouse` or `cdc/school`, without slashes at the ends; it limits the permissions of jobs."
  }

  validation {
    condition     = var.lake.noncurrent_days >= 1
    error_message = "lake.noncurrent_days: expected a number of days, 1 or more."
  }
}

variable "landing" {
  description = <<-EOT
    Prefixes that sinks write to outside the warehouse: `bucket` (default: the lake), `prefix`, and `kms_key_arn` if that bucket has its own
    key. Jobs read there, delete files after archiving them, and mark each table's folder as theirs (`_compactor/owner.json`). `write`: they may
    also land files there, for `compactor ingest` and `compactor reconcile --repair`.
  EOT
  type = list(object({
    bucket      = optional(string)
    prefix      = string
    kms_key_arn = optional(string)
    write       = optional(bool, false)
  }))
  default  = []
  nullable = false

  validation {
    condition     = alltrue([for place in var.landing : can(regex("^[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*$", place.prefix))])
    error_message = "landing: expected prefixes such as `kafka/topics`, without slashes at the ends; an empty prefix would grant access to the whole bucket."
  }
}

variable "archive" {
  description = <<-EOT
    Lifecycle of archived files for each table in `tables`, because lifecycle rules work by prefix. Files move to `storage_class` after
    `transition_days` and are deleted after `expiration_days` (null: never; `rebuild` needs them). Other tables have no such rule.
  EOT
  type = object({
    tables          = optional(set(string), [])
    storage_class   = optional(string, "GLACIER_IR")
    transition_days = optional(number, 90)
    expiration_days = optional(number)
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR"], var.archive.storage_class)
    error_message = "archive.storage_class: expected STANDARD_IA, INTELLIGENT_TIERING or GLACIER_IR; other classes cannot be read immediately, and `rebuild` reads the archive."
  }

  validation {
    condition     = var.archive.transition_days >= 30
    error_message = "archive.transition_days: expected 30 or more, the minimum of S3 for these classes."
  }

  validation {
    condition     = var.archive.expiration_days == null ? true : var.archive.expiration_days > var.archive.transition_days
    error_message = "archive.expiration_days: expected more than transition_days, or null."
  }

  validation {
    condition     = length(var.archive.tables) <= 900
    error_message = "archive.tables: S3 allows 1,000 rules a bucket; list the 900 largest tables."
  }

  validation {
    condition     = alltrue([for table in var.archive.tables : can(regex("^[a-z0-9_]+$", table))])
    error_message = "archive.tables: expected table names as in compactor.yaml."
  }
}

variable "archive_keys" {
  description = <<-EOT
    KMS keys of raw files, for `archive_kms_key` in compactor.yaml: only jobs can read the archive then, not everybody who may use the lake's key. By
    name: `default` for all tables, else the table. `{}` creates a key; `existing` is a key of your own, whose policy must let jobs use it.
    `role_arns`: more roles that may use a created key, such as one with `job_policies` that runs `rebuild`, `erase` or `reencrypt`.
  EOT
  type = map(object({
    existing  = optional(object({ arn = string }))
    role_arns = optional(list(string), [])
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.archive_keys) : can(regex("^[a-z0-9_]+$", name))])
    error_message = "archive_keys: expected `default` or table names as in compactor.yaml."
  }

  validation {
    condition     = alltrue([for key in values(var.archive_keys) : key.existing == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", key.existing.arn))])
    error_message = "archive_keys: expected the ARN of a key (not of an alias) as `existing.arn`."
  }

  validation {
    condition     = alltrue(flatten([for key in values(var.archive_keys) : [for arn in key.role_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", arn))]]))
    error_message = "archive_keys: expected ARNs of roles as `role_arns`, never `*`."
  }
}

variable "hash_secret" {
  description = <<-EOT
    A secret in AWS Secrets Manager, for `hash_secret` in compactor.yaml: its text keys the hashes of protected columns and of erased keys. Jobs may
    read it, callers may not. The module does not create it, because its text would be in Terraform's state. `kms_key_arn`: the key that it is
    encrypted with, unless that is `aws/secretsmanager`.
  EOT
  type = object({
    arn         = string
    kms_key_arn = optional(string)
  })
  default = null

  validation {
    condition     = var.hash_secret == null ? true : can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.hash_secret.arn))
    error_message = "hash_secret: expected the ARN of a secret as `arn`."
  }
}

variable "code_bucket" {
  description = "Name of the bucket for job packages, plans and DAGs (default: `name`, `code`, account and region)."
  type        = string
  default     = null
}

variable "logs_bucket" {
  description = "Name of the bucket for job logs and access logs (default: `name`, `logs`, account and region)."
  type        = string
  default     = null
}

variable "force_destroy" {
  description = "Let `terraform destroy` delete the buckets with their content. For trials only."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key" {
  description = <<-EOT
    An existing key for lake, code, log groups and topic; null: create one. Its policy must allow CloudWatch Logs, CloudWatch and EventBridge to
    use it. The ARN may be unknown until apply.
  EOT
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.kms_key == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.kms_key.arn))
    error_message = "kms_key.arn: expected the ARN of a key (not of an alias)."
  }
}

variable "roles" {
  description = <<-EOT
    How the module's roles are made: `path`, `permissions_boundary_arn`, and `names` for accounts with a naming rule (default: `name` and `job`,
    `caller`, `mwaa`, `emr-service`, `emr-instance`).
  EOT
  type = object({
    path                     = optional(string, "/")
    permissions_boundary_arn = optional(string)
    names = optional(object({
      job          = optional(string)
      caller       = optional(string)
      mwaa         = optional(string)
      emr_service  = optional(string)
      emr_instance = optional(string)
    }), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = can(regex("^/([!-~]+/)?$", var.roles.path))
    error_message = "roles.path: expected a path with a slash at both ends, such as `/data/`."
  }

  validation {
    condition     = var.roles.permissions_boundary_arn == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/", var.roles.permissions_boundary_arn))
    error_message = "roles.permissions_boundary_arn: expected the ARN of a policy."
  }

  validation {
    condition     = alltrue([for name in values(var.roles.names) : name == null ? true : can(regex("^[A-Za-z0-9+=,.@_-]{1,64}$", name))])
    error_message = "roles.names: expected names of IAM roles, at most 64 characters, without a path."
  }
}

variable "database" {
  description = <<-EOT
    The Glue databases. `name`: the database of the views, `catalog.database` in compactor.yaml. `tables`: the database of base, Delta and
    incremental tables, `tables_in` (default: the same database). `create = false`: use existing databases.
  EOT
  type = object({
    name   = string
    tables = optional(object({ name = string }))
    create = optional(bool, true)
  })
  nullable = false

  validation {
    condition     = alltrue([for name in [var.database.name, try(var.database.tables.name, var.database.name)] : can(regex("^[a-z0-9_]{1,128}$", name))])
    error_message = "database: expected lower-case letters, digits and underscores, at most 128; Hive, Glue and Athena all accept these."
  }

  validation {
    condition     = var.database.tables == null ? true : var.database.tables.name != var.database.name
    error_message = "database.tables: expected another database; leave it out to have everything in one."
  }
}

variable "serverless" {
  description = <<-EOT
    The EMR Serverless application; null: none. `maximum_*`: limits for all its jobs together. `max_concurrent_runs`: jobs that run at the same
    time; others wait up to `queue_timeout_minutes`. Without `subnet_ids` jobs have access to S3 and Glue, but not to a VPC.
  EOT
  type = object({
    release_label         = optional(string, "emr-7.13.0")
    architecture          = optional(string, "ARM64")
    maximum_cpu           = optional(string, "64 vCPU")
    maximum_memory        = optional(string, "256 GB")
    maximum_disk          = optional(string, "1000 GB")
    idle_timeout_minutes  = optional(number, 5)
    max_concurrent_runs   = optional(number, 20)
    queue_timeout_minutes = optional(number, 60)
    spark_ui              = optional(bool, true)
    subnet_ids            = optional(list(string), [])
    security_group_ids    = optional(list(string), [])
  })
  default = {}

  validation {
    condition     = var.serverless == null ? true : can(regex("^emr-(7\\.|spark-8\\.)", var.serverless.release_label))
    error_message = "serverless.release_label: expected emr-7.x or emr-spark-8.x, which the job package supports."
  }

  validation {
    condition     = var.serverless == null ? true : contains(["ARM64", "X86_64"], var.serverless.architecture)
    error_message = "serverless.architecture: expected ARM64 or X86_64."
  }

  validation {
    condition     = var.serverless == null ? true : (length(var.serverless.subnet_ids) == 0) == (length(var.serverless.security_group_ids) == 0)
    error_message = "serverless: set both subnet_ids and security_group_ids, or neither."
  }
}

variable "cluster" {
  description = <<-EOT
    A long-running EMR cluster for `runner: emr-steps`; null: none. It needs a private subnet with access to S3 and Glue, and the tag
    `for-use-with-amazon-emr-managed-policies = true` on subnet and security groups. `glue_metastore`: Hive and Spark on it use Glue unless a job
    says otherwise; false for a metastore service of your own (`catalog: {uri: thrift://...}`). `idle_timeout_minutes`: the cluster ends itself after
    that time without a step; null: never. Runs without work start no step, and another cluster has another id, which `emr: {cluster: ..}` must name.
  EOT
  type = object({
    subnet_id                 = string
    primary_security_group_id = string
    core_security_group_id    = string
    service_security_group_id = string
    release_label             = optional(string, "emr-7.13.0")
    primary_instance_type     = optional(string, "m7g.xlarge")
    core_instance_type        = optional(string, "r7g.2xlarge")
    core_instance_count       = optional(number, 2)
    core_volume_gib           = optional(number, 128)
    step_concurrency          = optional(number, 4)
    idle_timeout_minutes      = optional(number)
    termination_protection    = optional(bool, false)
    glue_metastore            = optional(bool, true)
  })
  default = null

  validation {
    condition     = var.cluster == null ? true : can(regex("^emr-7\\.", var.cluster.release_label))
    error_message = "cluster.release_label: expected emr-7.x: emr-spark-8.x has no Hive application."
  }

  validation {
    condition     = var.cluster == null ? true : var.cluster.core_instance_count >= 1 && var.cluster.step_concurrency >= 1
    error_message = "cluster: expected core_instance_count and step_concurrency of 1 or more."
  }

  validation {
    condition     = try(var.cluster.idle_timeout_minutes, null) == null ? true : var.cluster.idle_timeout_minutes >= 1 && var.cluster.idle_timeout_minutes <= 10080
    error_message = "cluster.idle_timeout_minutes: expected 1 to 10080 (seven days, the limit of EMR)."
  }
}

variable "mwaa" {
  description = <<-EOT
    An Amazon MWAA environment; null: none. It needs two private subnets in two zones with access to AWS (NAT or endpoints), and security groups
    that allow traffic between their members. DAGs come from `dags/` in the code bucket. `package`: a local folder that `compactor package --mwaa`
    wrote; the module uploads its requirements.txt, plugins.zip and startup.sh. For files that are in the code bucket already, set `requirements`,
    `plugins` and `startup_script` instead: key and version of each object.
  EOT
  type = object({
    subnet_ids            = list(string)
    security_group_ids    = list(string)
    airflow_version       = optional(string, "3.0.6")
    environment_class     = optional(string, "mw1.small")
    min_workers           = optional(number, 1)
    max_workers           = optional(number, 5)
    package               = optional(string)
    requirements          = optional(object({ key = string, version = string }))
    plugins               = optional(object({ key = string, version = string }))
    startup_script        = optional(object({ key = string, version = string }))
    webserver_access_mode = optional(string, "PRIVATE_ONLY")
    maintenance_start     = optional(string, "SUN:03:30")
    options               = optional(map(string), {})
  })
  default = null

  validation {
    condition     = var.mwaa == null ? true : length(var.mwaa.subnet_ids) == 2 && length(var.mwaa.security_group_ids) >= 1
    error_message = "mwaa: expected exactly two subnet_ids, in two zones, and at least one of security_group_ids."
  }

  validation {
    condition     = var.mwaa == null ? true : can(regex("^3\\.", var.mwaa.airflow_version))
    error_message = "mwaa.airflow_version: expected 3.x; the DAGs need Airflow 3."
  }

  validation {
    condition     = var.mwaa == null ? true : contains(["PRIVATE_ONLY", "PUBLIC_ONLY"], var.mwaa.webserver_access_mode)
    error_message = "mwaa.webserver_access_mode: expected PRIVATE_ONLY or PUBLIC_ONLY."
  }

  validation {
    condition     = try(var.mwaa.package, null) == null ? true : var.mwaa.requirements == null && var.mwaa.plugins == null && var.mwaa.startup_script == null
    error_message = "mwaa: `package` uploads requirements, plugins and start-up script; set either it or those three."
  }

  validation {
    condition     = try(var.mwaa.package, null) == null ? true : alltrue([for name in ["requirements.txt", "plugins.zip", "startup.sh"] : fileexists("${var.mwaa.package}/${name}")])
    error_message = "mwaa.package: expected requirements.txt, plugins.zip and startup.sh in this folder; `compactor package --mwaa FOLDER` writes them."
  }
}

variable "callers" {
  description = <<-EOT
    Identities that may start jobs. `trusted`: create the caller role, which these roles and users may assume. `roles`: existing roles of this
    account that get its permissions directly, by any key: `{ workers = aws_iam_role.workers.name }`. The module's MWAA environment always gets
    them. `discover`: they may also add tables of `discover:` below `landing`, whose files they read, with `discovered: <warehouse>/_compactor/tables.d`.
  EOT
  type = object({
    trusted  = optional(object({ arns = list(string) }))
    roles    = optional(map(string), {})
    discover = optional(bool, false)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.callers.trusted == null ? true : length(var.callers.trusted.arns) > 0 && alltrue([for arn in var.callers.trusted.arns : can(regex("^arn:[a-z-]+:(iam|sts)::[0-9]{12}:", arn))])
    error_message = "callers.trusted.arns: expected ARNs of roles or users, at least one, never `*`."
  }

  validation {
    condition     = !anytrue([for key in keys(var.callers.roles) : contains(["caller", "mwaa"], key)])
    error_message = "callers.roles: the keys `caller` and `mwaa` are the module's own roles; choose other keys."
  }
}

variable "log_retention_days" {
  description = "How many days log groups and the logs bucket keep logs; one of the values that CloudWatch Logs accepts."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days: expected one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827 ... 3653."
  }
}

variable "notifications" {
  description = "Receivers of alarms. `topic`: an existing SNS topic; null: create one. `emails`: subscribers, who each get a message to confirm."
  type = object({
    topic  = optional(object({ arn = string }))
    emails = optional(set(string), [])
  })
  default  = {}
  nullable = false
}

variable "dashboard" {
  description = "Create a CloudWatch dashboard of all metrics in docs/aws.md, in the namespace of `alarms`, else `Compactor`."
  type        = bool
  default     = false
  nullable    = false
}

variable "alarms" {
  description = <<-EOT
    Alarms on the metrics in docs/aws.md; null: none. Each limit is the largest value without an alarm. `tables`: tables with their own alarm
    (name → largest age in minutes of the newest ingested change). Without it, fresh tables hide a stale one that is no longer measured.
  EOT
  type = object({
    namespace              = optional(string, "Compactor")
    failed_runs_max        = optional(number, 0)
    freshness_minutes_max  = optional(number, 180)
    backlog_minutes_max    = optional(number, 120)
    quarantined_files_max  = optional(number, 0)
    period_minutes         = optional(number, 60)
    tables                 = optional(map(number), {})
    notify_when_fine_again = optional(bool, true)
  })
  default = null

  validation {
    condition     = var.alarms == null ? true : can(regex("^[A-Za-z][A-Za-z0-9._/-]*$", var.alarms.namespace)) && !startswith(var.alarms.namespace, "AWS")
    error_message = "alarms.namespace: expected a name that does not begin with AWS, which is reserved."
  }

  validation {
    condition     = var.alarms == null ? true : var.alarms.period_minutes >= 1 && var.alarms.period_minutes <= 1440 && floor(var.alarms.period_minutes) == var.alarms.period_minutes
    error_message = "alarms.period_minutes: expected whole minutes, 1 to 1440, and no shorter than the time between two runs."
  }
}

variable "package_version" {
  description = "The folder below `jobs/` in the code bucket that `compactor package` writes to; part of the output `compactor_yaml`."
  type        = string
  default     = "0.1.0"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+$", var.package_version))
    error_message = "package_version: expected the name of a folder, such as 0.1.0."
  }
}

variable "vpc_endpoints" {
  description = <<-EOT
    Endpoints in an existing VPC, so that private subnets reach AWS without a NAT gateway; null: none. `route_table_ids` get the gateway endpoint of
    S3, which costs nothing. The `services` get interface endpoints in `subnet_ids`, each billed by the hour and zone; `security_group_ids` must
    accept HTTPS from the subnets. MWAA needs more services; see docs/aws.md.
  EOT
  type = object({
    vpc_id             = string
    route_table_ids    = list(string)
    subnet_ids         = optional(list(string), [])
    security_group_ids = optional(list(string), [])
    services           = optional(set(string), ["glue", "kms", "logs", "monitoring", "secretsmanager", "sns", "sts"])
  })
  default = null

  validation {
    condition     = var.vpc_endpoints == null ? true : length(var.vpc_endpoints.services) == 0 || (length(var.vpc_endpoints.subnet_ids) > 0 && length(var.vpc_endpoints.security_group_ids) > 0)
    error_message = "vpc_endpoints: interface endpoints need subnet_ids and security_group_ids; `services = []` creates the endpoint of S3 only."
  }

  validation {
    condition     = var.vpc_endpoints == null ? true : !contains(var.vpc_endpoints.services, "s3")
    error_message = "vpc_endpoints.services: S3 has the gateway endpoint; leave it out."
  }
}

variable "lake_formation" {
  description = <<-EOT
    Lake Formation grants, for accounts where it manages the databases; null: none. Jobs get what they need on both databases and their tables, and
    DESCRIBE on the database `default`, which must exist.
    `readers`: principals, by any key: `{ analysts = aws_iam_role.analysts.arn }`. They get SELECT on the views of `tables` (names as in
    compactor.yaml) and on the base and Delta below these, and on nothing else. Add a table after its first run: a grant on an object that does
    not exist fails. `views`: what stands behind a table's name in the names of its views, such as `_iceberg`; without Athena `[""]`.
    `register`: register the warehouse's location with Lake Formation.
  EOT
  type = object({
    readers  = optional(map(string), {})
    tables   = optional(set(string), [])
    views    = optional(set(string), ["", "_athena"])
    register = optional(bool, false)
  })
  default = null

  validation {
    condition     = var.lake_formation == null ? true : alltrue([for arn in values(var.lake_formation.readers) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:", arn))])
    error_message = "lake_formation.readers: expected ARNs of roles or users."
  }
}
