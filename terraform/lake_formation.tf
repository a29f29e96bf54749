# Grants of Lake Formation, for accounts where it manages the databases. Jobs keep their access to S3 by IAM; these grants are about the catalog.

locals {
  # Not `try`: its result would be unknown where one of the ARNs is.
  readers  = var.lake_formation == null ? {} : var.lake_formation.readers
  register = var.lake_formation == null ? false : var.lake_formation.register

  # Views are queried with the reader's own permissions on what lies below them, so a reader needs the base and the Delta too. Never the whole
  # database: `<t>_incremental` has what the source wrote, protected columns among it.
  reader_objects = var.lake_formation == null ? {} : merge(flatten([
    for table in var.lake_formation.tables : concat(
      [for suffix in var.lake_formation.views : { "${table}${suffix}" = var.database.name }],
      [for part in ["base", "delta"] : { "${table}_${part}" = lookup(local.databases, "tables", var.database.name) }],
    )
  ])...)

  reader_grants = merge([
    for key, reader in local.readers : { for object, database in local.reader_objects : "${key}-${object}" => { principal = reader, database = database, object = object } }
  ]...)

  reader_databases = merge([
    for key, reader in local.readers : { for part, name in local.databases : "${key}-${part}" => { principal = reader, database = name } }
  ]...)

  # Roles of jobs: what they are → ARN.
  job_roles = merge(
    { for role in aws_iam_role.job : "job" => role.arn },
    { for role in aws_iam_role.cluster_instance : "cluster" => role.arn },
  )

  # One grant for each role and database: the keys are known at plan time.
  job_grants = var.lake_formation == null ? {} : merge([
    for job, role in local.job_roles : { for key, name in local.databases : "${job}-${key}" => { principal = role, database = name } }
  ]...)
}

resource "aws_lakeformation_resource" "lake" {
  count = local.register ? 1 : 0

  arn                     = "${local.lake_arn}/${var.lake.warehouse}"
  use_service_linked_role = true
}

resource "aws_lakeformation_permissions" "location" {
  for_each = { for job, role in local.job_roles : job => role if local.register }

  principal   = each.value
  permissions = ["DATA_LOCATION_ACCESS"]

  data_location {
    arn = aws_lakeformation_resource.lake[0].arn
  }
}

resource "aws_lakeformation_permissions" "database" {
  for_each = local.job_grants

  principal   = each.value.principal
  permissions = ["CREATE_TABLE", "DESCRIBE"]

  database {
    name = each.value.database
  }

  depends_on = [aws_glue_catalog_database.this]
}

# Every session of Spark looks at it. If the tables are in it, this grant must equal the one above, or the two would undo each other.
resource "aws_lakeformation_permissions" "default" {
  for_each = var.lake_formation == null ? {} : local.job_roles

  principal   = each.value
  permissions = contains(values(local.databases), "default") ? ["CREATE_TABLE", "DESCRIBE"] : ["DESCRIBE"]

  database {
    name = "default"
  }
}

# Never DROP: the job's IAM policy does not allow it either.
resource "aws_lakeformation_permissions" "tables" {
  for_each = local.job_grants

  principal   = each.value.principal
  permissions = ["ALTER", "DELETE", "DESCRIBE", "INSERT", "SELECT"]

  table {
    database_name = each.value.database
    wildcard      = true
  }

  depends_on = [aws_glue_catalog_database.this]
}

resource "aws_lakeformation_permissions" "reader_database" {
  for_each = local.reader_databases

  principal   = each.value.principal
  permissions = ["DESCRIBE"]

  database {
    name = each.value.database
  }

  depends_on = [aws_glue_catalog_database.this]
}

resource "aws_lakeformation_permissions" "reader_tables" {
  for_each = local.reader_grants

  principal   = each.value.principal
  permissions = ["DESCRIBE", "SELECT"]

  table {
    database_name = each.value.database
    name          = each.value.object
  }

  depends_on = [aws_glue_catalog_database.this]
}
